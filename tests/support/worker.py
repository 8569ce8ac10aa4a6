"""A process that does known amounts of work when told, and says what it did by its own accounting.

Runs as a program of its own: `python -S worker.py`. Each line on stdin is `WORK ARGUMENT`; each answer on stdout is the
process's own figures since its begin, as JSON. It sleeps in between, so a sample taken then misses nothing.
"""

import json
import mmap
import os
import resource
import sys
import threading
import time
from pathlib import Path


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def sleep(times):
    for _ in range(int(times)):
        time.sleep(0.0005)


def fault(pages):
    size = int(pages) * mmap.PAGESIZE
    area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, size, mmap.PAGESIZE):
        area[at] = 1
    area.close()


def read(path):
    block = 1 << 20
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, block) as page:  # O_DIRECT wants aligned memory
        at = 0
        while (n := os.preadv(descriptor, [page], at)) > 0:
            at += n
    os.close(descriptor)


def threads(seconds):
    """Four at once: two stay, waiting; two end."""
    ready = threading.Barrier(3)

    def stay():
        burn(float(seconds))
        sleep(50)
        ready.wait()
        threading.Event().wait()

    def leave():
        burn(float(seconds))
        sleep(50)

    going = [threading.Thread(target=leave) for _ in range(2)]
    for thread in [threading.Thread(target=stay, daemon=True) for _ in range(2)] + going:
        thread.start()
    for thread in going:
        thread.join()
    ready.wait()


def name(text):
    Path("/proc/self/comm").write_bytes(text.encode().decode("unicode_escape").encode("latin-1"))


def spawn(program):
    """Children one after the other, each waited for; the last words are how many of which program."""
    program, _, times = program.rpartition(" ")
    for _ in range(int(times)):
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", program], {})
        os.waitpid(pid, 0)


def figures():
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    io = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    read_bytes = next(int(line.split()[1]) for line in io if line.startswith("read_bytes"))
    return {
        "cpu_ns": time.process_time_ns(),
        "voluntary": own.ru_nvcsw,
        "involuntary": own.ru_nivcsw,
        "minor_faults": own.ru_minflt,
        "major_faults": own.ru_majflt,
        "read_bytes": read_bytes,
        "children_cpu_ns": round((children.ru_utime + children.ru_stime) * 1e9),
        "children_minor_faults": children.ru_minflt,
    }


WORK = {"burn": lambda s: burn(float(s)), "sleep": sleep, "fault": fault, "read": read, "threads": threads}
WORK |= {"name": name, "spawn": spawn, "nothing": lambda _: None}

if __name__ == "__main__":
    for line in sys.stdin:
        work, _, argument = line.rstrip("\n").partition(" ")
        WORK[work](argument)
        print(json.dumps(figures()), flush=True)
