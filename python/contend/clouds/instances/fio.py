"""fio in instances, over SSH: a trial's, whose figures come back, and a neighbour's, which runs until nobody listens.

What is started there ends when the connection does, whoever was killed here, and by itself after its time.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from contend.clouds.instances.placed import Placed
from contend.clouds.instances.reach import Way, connect, output_of
from contend.clouds.instances.volumes import Held
from contend.errors import HostFailed, TrialFailed
from contend.platforms import ssh

if TYPE_CHECKING:
    from asyncssh import SSHClientProcess

DEVICE = "DEVICE"
"""What stands for the volume's device in the words of fio."""
LATE_S = 60.0
_NOT_IT = 77
NOTE = "/tmp/contend-fio-{role}"  # in the instance: the shell there that waits for fio, and fio
# `cat` ends when the connection does: whoever asked has ended then, in whatever way.
_SCRIPT = """\
{test} || exit {not_it}
exec 3<&0
timeout {limit:.0f} {fio} <&- &
p=$!
echo $$ $p >{note}
{{ cat <&3; kill $p; }} >/dev/null 2>&1 &
w=$!
{meanwhile}wait $p
c=$?
kill $w 2>/dev/null
rm -f {note}
exit $c"""
# What the kernel there has counted of the disk: Documentation/block/stat.rst, sectors read and written.
_COUNT = """\
while kill -0 $p 2>/dev/null; do
read -r a b r c d e s rest </sys/block/{name}/stat
echo $(( (r + s) * 512 ))
sleep 0.25
done
"""
# Of both, since the shell may go first, when it tells something to nobody. One that has ended may stay there as a zombie for
# ever: not every instance's first process waits for orphans.
_QUIET = (
    f"n=0; for p in $(cat {NOTE} 2>/dev/null); do"
    """ while grep -qs '^State:.[^ZX]' "/proc/$p/status"; do"""
    " n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done; done"
)


def script(role: str, fio: str, volume: Held, limit_s: float, *, count: bool = False) -> str:
    """Shell script for the instance: fio on that volume, if its device is still that volume. count: tells, four times a
    second, how many bytes were moved since the disk was there."""
    name = volume.device.rpartition("/")[2]
    words = shlex.join(word.replace(DEVICE, volume.device) for word in shlex.split(fio))
    return _SCRIPT.format(
        test=volume.test,
        not_it=_NOT_IT,
        fio=words + (" >/dev/null" if count else ""),
        limit=limit_s,
        note=NOTE.format(role=role),
        meanwhile=_COUNT.format(name=name) if count else "",
    )


def command(way: Way, text: str) -> str:
    """The command that runs a script as root: disks are root's, and so is whoever may end what runs as root."""
    return f"{'' if way.user == 'root' else 'sudo -n '}sh -c {shlex.quote(text)}"


async def run(role: str, to: Placed, way: Way, fio: str, volume: Held, limit_s: float) -> dict[str, Any]:
    """Run fio in an instance and return its document. Raises TrialFailed, HostFailed."""
    words = command(way, script(role, fio, volume, limit_s))
    async with await connect(role, to, way) as connection, ssh.started(connection, words) as process:
        try:
            out, err = await asyncio.wait_for(
                asyncio.gather(process.stdout.read(), process.stderr.read()), limit_s + LATE_S
            )
            await process.wait_closed()
        except TimeoutError as error:
            raise TrialFailed(f"fio did not end in instance {role}", hint="is it overloaded?") from error
        _check(role, process, volume, err or out)
    try:
        document: dict[str, Any] = json.loads(out[out.index("{") :])
    except ValueError as error:
        raise TrialFailed(f"fio in instance {role} printed no JSON: {out.strip()[-200:]!r}") from error
    return document


async def neighbour(
    role: str,
    to: Placed,
    way: Way,
    fio: str,
    volume: Held,
    limit_s: float,
    report_bytes: Callable[[int], None],
) -> None:
    """Run fio until its time is over; report_bytes: is given the bytes that the disk has moved so far.

    Raises TrialFailed, HostFailed.
    """
    words = command(way, script(role, fio, volume, limit_s, count=True))
    async with await connect(role, to, way) as connection, ssh.started(connection, words) as process:
        async for line in process.stdout:
            if line.strip().isdecimal():
                report_bytes(int(line))
        err = await process.stderr.read()
        await process.wait_closed()
        _check(role, process, volume, err)


async def quiet(role: str, to: Placed, way: Way) -> None:
    """Wait until nothing of contend's runs in that instance any more. Raises HostFailed."""
    async with await connect(role, to, way) as connection:
        await output_of(role, connection, command(way, _QUIET.replace("{role}", role)))


def _check(role: str, process: SSHClientProcess[str], volume: Held, errors: str) -> None:
    code = process.exit_status
    if code == 0:
        return
    if code == _NOT_IT:
        raise HostFailed(
            f"{volume.device} of instance {role} is no longer volume {volume.id}",
            hint="nothing was written; was it detached?",
        )
    last = " ".join(errors.split())[-200:] or "nothing"
    if last.startswith("sudo"):
        raise HostFailed(f"instance {role}: {last}", hint="disks take root, or sudo without a password")
    ended = f"status {code}" if code is not None else "no status: the connection broke"
    raise TrialFailed(f"fio in instance {role} ended with {ended}", hint=f"it said: {last}")
