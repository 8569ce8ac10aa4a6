"""The program inside a guest: starts commands, says how they ended, and moves files. It is the guest's first process.

It is given to the guest as it stands here, with `mirror` and `listening`: they need Python 3.9 and nothing else of contend.
It talks through one file, a virtio-serial port, in frames of a kind, the number of what they are about, and some bytes:

    run R, signal K, processes C, changes L, data D, write W, remove M, clock P, time X, ports N     to the guest
    hello H, began B, failed F, stdout o, stderr e, ended x, gone g, answer a, file f, data d, clock p, port l   from it
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import time
from typing import Any

from contend.platforms.guests.mirror import Mirror
from contend.platforms.listening import ports

HEADER = struct.Struct(">cII")
CHUNK = 1 << 16
GROUPS = "/sys/fs/cgroup"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


def clock_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Running:
    """A command that the agent has started, and the outputs that it forwards."""

    def __init__(self, number: int, pid: int, group: str, began_ns: int) -> None:
        self.number, self.pid, self.group, self.began_ns = number, pid, group, began_ns
        self.outputs: dict[int, bytes] = {}  # descriptor: kind of frame


class Agent:
    def __init__(self, port: int, groups: str = GROUPS) -> None:
        self.port, self.groups = port, groups
        self.buffer = bytearray()
        self.running: dict[int, Running] = {}  # by pid
        self.outputs: dict[int, Running] = {}  # by descriptor, also of what has ended and left a child
        self.left: list[Running] = []  # ended, but for what they have left running
        self.files = Mirror(self.send)
        self.awaited: set[int] = set()  # ports
        self.poll = select.poll()
        self.woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self.woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.poll.register(port, select.POLLIN)
        self.poll.register(self.woken, select.POLLIN)

    # Frames

    def send(self, kind: bytes, number: int, data: bytes = b"") -> None:
        view = memoryview(HEADER.pack(kind, number, len(data)) + data)
        while view:
            view = view[os.write(self.port, view) :]

    def say(self, kind: bytes, number: int, **fields: Any) -> None:
        self.send(kind, number, json.dumps(fields).encode())

    def serve(self) -> None:
        """Answer requests until the port is closed."""
        self.say(b"H", 0, ns=clock_ns(), **machine())
        while True:
            # The last of what a command has left is an orphan, so it is reaped here; a kernel may count it a while more.
            within_ms = 20 if self.awaited else 1000 if self.left else None
            for fd, _ in self.poll.poll(within_ms):
                if fd == self.port:
                    data = os.read(self.port, CHUNK)
                    if not data:
                        return
                    self.buffer += data
                    self.parse()
                elif fd == self.woken:
                    self.reap()
                elif fd in self.outputs:
                    self.forward(fd)
            if self.awaited:
                self.look_at_ports()
            self.look_at_left()

    def parse(self) -> None:
        while len(self.buffer) >= HEADER.size:
            kind, number, length = HEADER.unpack_from(self.buffer)
            if len(self.buffer) < HEADER.size + length:
                return
            data = bytes(self.buffer[HEADER.size : HEADER.size + length])
            del self.buffer[: HEADER.size + length]
            if kind == b"P":
                self.send(b"p", number, str(clock_ns()).encode())
            elif kind == b"D":
                self.files.write(data)
            else:
                try:
                    self.act(kind, number, json.loads(data or b"{}"))
                except OSError as error:
                    self.say(b"F", number, error=error.errno, what=str(error))

    def act(self, kind: bytes, number: int, request: dict[str, Any]) -> None:
        if kind == b"R":
            self.run(number, request)
        elif kind == b"K":
            self.end(request["number"], request["signal"])
            self.say(b"a", number)
        elif kind == b"C":
            self.say(
                b"a",
                number,
                pids=[p for name in self.groups_made() for p in self.members(name)],
                **usage(self.groups),
            )
        elif kind == b"L":
            self.files.changes(number, request["roots"], request["largest"])
        elif kind == b"W":
            self.files.begin_write(number, request)
        elif kind == b"M":
            for path in request["paths"]:
                self.files.forget(path)
            self.say(b"a", number)
        elif kind == b"X":
            time.clock_settime_ns(time.CLOCK_REALTIME, request["ns"] + clock_ns())
            self.say(b"a", number)
        elif kind == b"N":
            self.awaited = set(request["ports"])
            self.say(b"a", number)

    # Commands

    def run(self, number: int, request: dict[str, Any]) -> None:
        group = os.path.join(self.groups, f"command-{number}")
        os.mkdir(group)
        pipes = [os.pipe() for _ in range(3)]
        for reader, _ in pipes:
            os.set_blocking(reader, False)
        pid = os.fork()
        if pid == 0:
            self.become(request, group, [writer for _, writer in pipes])
        for _, writer in pipes:
            os.close(writer)
        os.set_blocking(pipes[2][0], True)
        report = b""
        while part := os.read(pipes[2][0], 4096):  # closed by what it executes
            report += part
        os.close(pipes[2][0])
        began, _, failed = report.partition(b"\n")
        if failed:
            os.waitpid(pid, 0)
            for reader, _ in pipes[:2]:
                os.close(reader)
            self.drop_group(group)
            self.send(b"F", number, failed)
            return
        command = Running(number, pid, group, int(began))
        self.running[pid] = command
        for reader, kind in ((pipes[0][0], b"o"), (pipes[1][0], b"e")):
            command.outputs[reader] = kind
            self.outputs[reader] = command
            self.poll.register(reader, select.POLLIN)
        self.say(b"B", number, ns=command.began_ns, pid=pid)

    def become(self, request: dict[str, Any], group: str, writers: list[int]) -> None:
        """Turn the forked child into the command. Never returns."""
        step, out = "", writers[2]
        try:
            os.setsid()
            step = group
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write("0")
            os.nice(-os.getpriority(os.PRIO_PROCESS, 0))
            null = os.open(os.devnull, os.O_RDONLY)
            for number, fd in enumerate((null, writers[0], writers[1])):
                os.dup2(fd, number)
            for name in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
                signal.signal(name, signal.SIG_DFL)
            step = request["cwd"]
            os.chdir(step)
            environment = {**ENVIRONMENT, **request["env"]}
            step = request["argv"][0]
            os.write(out, b"%d\n" % clock_ns())
            os.execvpe(step, request["argv"], environment)
        except OSError as error:
            os.write(out, b"\n" + json.dumps({"error": error.errno, "what": step}).encode())
        except BaseException as error:  # noqa: BLE001 - the parent must learn of it, whatever it is
            os.write(out, b"\n" + json.dumps({"error": 0, "what": repr(error)}).encode())
        finally:
            os._exit(127)

    def reap(self) -> None:
        ended_ns = clock_ns()
        try:
            while os.read(self.woken, 64):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            command = self.running.pop(pid, None)
            if command is None:
                continue  # an orphan of some command
            for fd in list(command.outputs):
                self.forward(fd)
            alone = self.drop_group(command.group)
            if not alone:
                self.left.append(command)
            self.say(
                b"x",
                command.number,
                alone=alone,
                ns=ended_ns,
                began_ns=command.began_ns,
                status=status,
                user_ns=round(used.ru_utime * 1e9),
                system_ns=round(used.ru_stime * 1e9),
                max_rss_bytes=used.ru_maxrss * 1024,
                voluntary_switches=used.ru_nvcsw,
                involuntary_switches=used.ru_nivcsw,
            )

    def look_at_left(self) -> None:
        for command in list(self.left):
            if self.drop_group(command.group):
                self.left.remove(command)
                self.say(b"g", command.number)

    def forward(self, fd: int) -> None:
        """Forward what has come on an output, until there is no more for now."""
        command = self.outputs[fd]
        while True:
            try:
                data = os.read(fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.poll.unregister(fd)
                os.close(fd)
                del self.outputs[fd], command.outputs[fd]
                return
            self.send(command.outputs[fd], command.number, data)

    def end(self, number: int, name: int) -> None:
        """Send a signal to the command's process group; 0 ends everything that it has started, wherever that is now."""
        if name == 0:
            try:
                with open(os.path.join(self.groups, f"command-{number}", "cgroup.kill"), "w") as file:
                    file.write("1")
            except OSError:
                pass  # its last process has gone
            return
        for command in self.running.values():
            if command.number == number:
                try:
                    os.killpg(command.pid, name)
                    os.killpg(command.pid, signal.SIGCONT)  # who is stopped would not hear of it
                except ProcessLookupError:
                    pass

    def groups_made(self) -> list[str]:
        return [name for name in os.listdir(self.groups) if name.startswith("command-")]

    def members(self, name: str) -> list[int]:
        try:
            with open(os.path.join(self.groups, name, "cgroup.procs")) as file:
                pids = [int(line) for line in file]
        except OSError:
            return []
        return [pid for pid in pids if not _is_zombie(pid)]

    @staticmethod
    def drop_group(path: str) -> bool:
        """Remove a command's group; False where the command has left something running."""
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    # Ports

    def look_at_ports(self) -> None:
        open_ports = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            try:
                with open(table) as file:
                    open_ports |= ports(file.read())
            except OSError:
                continue
        for port in self.awaited & open_ports:
            self.awaited.discard(port)
            self.send(b"l", port)


def _is_zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def usage(group: str) -> dict[str, Any]:
    """Read usage and limits of this cgroup by file name; empty at the root, which has none of these files."""
    texts = {}
    for name in ("cpu.stat", "cpu.max", "memory.max", "cpuset.cpus.effective"):
        try:
            with open(os.path.join(group, name)) as file:
                texts[name] = file.read().strip()
        except OSError:
            continue
    return {"files": texts}


def machine() -> dict[str, Any]:
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) * 1024
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
    }


def open_port(name: str, within_s: float = 10.0) -> int:
    """Open the virtio-serial port of that name; it comes with its driver, which may not be there yet."""
    folder = "/sys/class/virtio-ports"
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        for device in os.listdir(folder) if os.path.isdir(folder) else []:
            with open(os.path.join(folder, device, "name")) as file:
                if file.read().strip() == name:
                    return os.open(f"/dev/{device}", os.O_RDWR | os.O_CLOEXEC)
        time.sleep(0.02)
    raise OSError(f"there is no port {name}")


def main(port: str) -> None:
    try:
        os.nice(-10)  # so that the end of a command is seen when it happens, however busy the others are
    except OSError:
        pass
    Agent(open_port(port)).serve()
    while True:  # the first process must not end
        time.sleep(3600)
