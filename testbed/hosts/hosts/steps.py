"""What is tried on a host, and what came of it: it works, it works with less and says so, it is refused in words, or it is
broken, which nothing may be."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hosts.kinds import Kind

TINY = """\
name: tiny
run: sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done'
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 100ms
"""
BURNER = TINY.replace("tiny", "burner") + "neighbour: {run: \"sh -c 'while :; do :; done'\", burning: 0.01}\n"
SHORT = "study: interference\nvictims: [tiny]\nneighbours: [burner]\nmeasure: {target: null, blocks: 2, pilot: 1, seed: 7}\n"
LONG = SHORT.replace("blocks: 2", "blocks: 200")
OVERHEAD = """\
study: overhead
apps: [tiny]
platforms: [container]
engine: {engine}
provisioning: [vanilla]
sizes: [1]
measure: {{target: null, blocks: 2, pilot: 1, seed: 7}}
"""
PROGRAM = """\
import threading, time
lock = threading.Lock()
def job():
    with lock: time.sleep(0.01)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    threads = [threading.Thread(target=job) for _ in range(3)]
    [each.start() for each in threads]; [each.join() for each in threads]
"""
# What contend makes carries its name; a neighbour that outlives its run is known by its command.
LEFT = """
left=$(find /sys/fs/cgroup -name '*contend-*' 2>/dev/null
    ip netns list 2>/dev/null | grep contend
    pgrep -f '[w]hile :; do :' || true)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 99; }
"""
SETUP = f"""set -e
mkdir -p ~/w ~/.config/contend/workloads && cd ~/w
cat >~/.config/contend/workloads/tiny.yaml <<'END'
{TINY}END
cat >~/.config/contend/workloads/burner.yaml <<'END'
{BURNER}END
cat >short.yaml <<'END'
{SHORT}END
cat >long.yaml <<'END'
{LONG}END
cat >docker.yaml <<'END'
{OVERHEAD.format(engine="docker")}END
cat >podman.yaml <<'END'
{OVERHEAD.format(engine="podman")}END
cat >works.sh <<'END'
while :; do i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; sleep 0.1; done
END
cat >mine.py <<'END'
{PROGRAM.format(seconds=1)}END
cat >serves.py <<'END'
{PROGRAM.format(seconds=600)}END
"""


# Two units and a container that work half of the time; what they had before must be there afterwards. Where Docker keeps
# containers in a group of their own, their weights do not count for a unit.
PROVE = f"""
for unit in shop backup; do systemd-run --quiet --unit=$unit sh $PWD/works.sh; done
tar -C / -ch bin/busybox | docker import - idle >/dev/null &&
    docker run -d --rm --name noisy -v $PWD:/w idle /bin/busybox sh /w/works.sh >/dev/null
sleep 30
prove() {{ contend prove shop.service --against backup.service --against noisy --trial 1s --for 6m $by "$@"; }}
by=; prove --dry-run >/dev/null || {{ by='--by quota'; echo 'note: by quota, since a weight does not count there'; }}
prove --dry-run | grep ' → ' >before
prove --consent; code=$?
prove --dry-run | grep ' → ' >after; cat before; docker kill noisy >/dev/null; systemctl stop shop backup
diff before after >&2 || {{ echo 'not put back' >&2; exit 99; }}
{LEFT} exit $code
"""


class Came(enum.StrEnum):
    """What came of a step."""

    WORKS = "works"
    DEGRADES = "degrades"
    REFUSED = "refused"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a login shell, in ~/w with contend on PATH. `codes`: exit codes of one that works."""

    name: str
    run: str
    within_s: int = 240
    codes: tuple[int, ...] = (0,)


STEPS = (
    Step("doctor", "contend doctor"),
    Step("run", "contend run short.yaml"),
    Step("ab", "contend ab --blocks 3 --target none -- true --vs sh -c :", 180),
    Step(
        "Ctrl-C",
        f"timeout --preserve-status -s INT 45 contend run long.yaml; code=$?; {LEFT} exit $code",
        120,
        (3,),
    ),
    Step(
        "kill, then destroy",
        f"contend run long.yaml & sleep 45; kill -KILL $! || exit 98; wait $!; contend destroy --all; {LEFT}",
        120,
    ),
    Step("sample", "contend sample --for 3s -o seen"),
    Step("watch", "contend watch --for 5s"),
    Step("trace", "contend trace -o traced -- python3 mine.py && contend hunt traced", codes=(0, 5)),
    Step(
        "trace --pid",
        "python3 serves.py & sleep 3; contend trace --pid $! --for 3s -o attached; code=$?; kill $!; exit $code",
    ),
)
"""Tried on each host."""
MORE = (
    Step("own cores", "contend run short.yaml --set placement=own-cores"),
    Step("Docker", "contend run docker.yaml", 300),
    Step("podman", "contend run podman.yaml", 300),
    Step("prove", PROVE, 900, (0, 5)),
    Step(
        "runs over NFS",
        "modprobe nfsd && mkdir -p /run/shared /run/nfs && systemctl start nfs-server && "
        "exportfs -o rw,no_root_squash,insecure,fsid=1 127.0.0.1:/run/shared && "
        "mount -t nfs -o vers=4.2 127.0.0.1:/run/shared /run/nfs || { echo 'no NFS here' >&2; exit 97; }; "
        "contend run short.yaml --runs /run/nfs/runs; code=$?; umount -l /run/nfs; exit $code",
        300,
    ),
    Step(
        "limits",
        "cd /opt/checkout && PYTHONPATH=/opt/contend/lib/$PY/site-packages:/opt/tests/lib/$PY/site-packages:tests "
        "/opt/contend/bin/python3 -m pytest -q -p no:cacheprovider -n 0 --override-ini testpaths=tests "
        "-k 'bare and (cpus or not_there or kill_9)' tests/contract/platforms",
        900,
    ),
)
"""Tried where a kind of host names them."""
BY_NAME = {step.name: step for step in (*STEPS, *MORE)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a step, with the words that say how."""

    step: str
    came: Came
    words: str
    took_s: float


def plan(kind: Kind) -> list[dict[str, Any]]:
    """The steps of a kind of host, as its guest reads them."""
    first = [{"name": "first", "run": kind.first, "user": "root", "within_s": 120}] if kind.first else []
    setup = {"name": "setup", "run": SETUP, "user": kind.user, "within_s": 60}
    path = "export PATH=/opt/contend/bin:$PATH; cd ~/w;"
    tried = [*STEPS, *(BY_NAME[name] for name in kind.more)]
    python = "PY=$(ls /opt/contend/lib); export PY;"
    return [
        *first,
        setup,
        *(
            {
                "name": step.name,
                "run": f"{path} {python} {step.run}",
                "user": kind.user,
                "within_s": round(step.within_s * kind.slower),
            }
            for step in tried
        ),
    ]


FULL = 60
"""A line of more is one that was broken, on a terminal of 80 columns."""


def judged(said: Mapping[str, Any]) -> Outcome:
    """One answer of a guest."""
    step = BY_NAME.get(said["step"])
    text = f"{said['out']}\n{said['err']}"
    error = re.search(r"^error: (.*)(?:\n  hint: (.*))?", text, re.MULTILINE)
    if said["code"] is None:
        came, words = Came.BROKEN, f"not through within {said['took_s']:g} s: {last(text)}"
    elif "Traceback (most recent" in text:
        came, words = Came.BROKEN, last(text)
    elif said["step"] == "limits" and said["code"] == 0:
        # Where every test is skipped pytest ends well, too.
        came, words = (Came.WORKS if " passed" in last(text) else Came.BROKEN), last(text)
    elif said["code"] in (step.codes if step else (0,)):
        less = notes(text)
        came, words = (Came.DEGRADES, "; ".join(less)) if less else (Came.WORKS, placed(text))
    elif error and error[2] and "left behind" not in text:
        came, words = Came.REFUSED, f"{error[1]} ({error[2]})"
    else:
        failed = re.search(r"^FAILED (.*)", text, re.MULTILINE)
        why = re.search(r"^E +(.*)", text, re.MULTILINE)
        came, words = Came.BROKEN, f"exit {said['code']}: {failed[1][:300] if failed else last(text)}"
        if failed and why:
            words += f" ({why[1][:200]})"
    return Outcome(said["step"], came, words, float(said["took_s"]))


def notes(text: str) -> list[str]:
    """What it did without, by its own notes: each goes on in lines that stand further in, or follow one that was full.

    >>> notes("note: no disks, as there\\n  are none\\nnext\\n" + "note: " + "long " * 14 + "\\nend\\nnext")[0]
    'no disks, as there are none'
    >>> notes("note: " + "long " * 14 + "\\nend\\nnext")[0].endswith("long end")
    True
    """
    found: list[str] = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if not (begins := re.match(r"( *)note: (.*)", line)):
            continue
        words, before = [begins[2]], line
        for later in lines[at + 1 :]:
            deeper = later.startswith(f"{begins[1]}  ")
            if not later.strip() or re.match(r" *note: ", later) or not (deeper or len(before) > FULL):
                break
            words.append(later)
            before = later
        found.append(" ".join(" ".join(words).split()))
    return list(dict.fromkeys(found))


def placed(text: str) -> str:
    """Where each party stood, where they were kept apart."""
    found = re.search(r"own-cores: ([^·\n]*)", text)
    return found[1].strip() if found else ""


def last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no output"
