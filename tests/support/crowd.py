"""Many children of one process, cheap enough to be thousands: `python -S crowd.py COUNT WORK [SECONDS]`.

The children are forked, and held at a gate until the next line on stdin; then they do their work: `sleep` until they
are ended, `burn` for so many seconds (then they stop themselves, so that their figures stand still), or `exit` with
their number modulo 256. A first line on stdout says that all are there, a second that all are past the gate; at the end
of stdin they are ended. What the crowd is told by the kernel goes to stdout as JSON, last.
"""

import os
import signal
import sys
import time


def burn(seconds):
    os.nice(19)  # the host has other things to do
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    os.kill(os.getpid(), signal.SIGSTOP)


def child(number, gate, work, seconds):
    os.read(gate, 1)  # the end of the pipe, for all at once
    if work == "exit":
        os._exit(number % 256)
    if work == "burn":
        burn(seconds)
    while True:
        signal.pause()


def main():
    count, work, seconds = int(sys.argv[1]), sys.argv[2], float((*sys.argv, "0")[3])
    gate, opener = os.pipe()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            child(number, gate, work, seconds)
        pids.append(pid)
    print("there", flush=True)
    sys.stdin.readline()
    os.close(opener)
    if work == "burn":
        for pid in pids:
            os.waitpid(pid, os.WUNTRACED)
    if work == "exit":
        for pid in pids:
            os.waitpid(pid, 0)
    print("past", flush=True)
    sys.stdin.readline()
    if work != "exit":
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
    import json  # after the forks: a smaller parent is sooner forked
    import resource

    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {"pids": pids, "cpu_ns": round((own.ru_utime + own.ru_stime) * 1e9), "minor_faults": own.ru_minflt}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
