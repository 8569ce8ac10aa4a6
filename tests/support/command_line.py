"""The real `contend`, as a user starts it, in a place of its own; and the proof that it left nothing behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.store import claims
from support import quick_start
from support.answers import data_in
from support.quick_start import CONTEND

# A victim and a neighbour of a few milliseconds that need nothing but a shell: what is tested is the tool.
WORKLOADS = {
    "tiny": """\
name: tiny
run: sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 100ms
""",
    "burner": """\
name: burner
run: sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
neighbour: {run: "sh -c 'while :; do :; done'", burning: 0.01}
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 100ms
""",
}

SCENARIO = """\
study: interference
victims: [{victim}]
neighbours: [{neighbour}]
measure: {{target: null, blocks: {blocks}, pilot: 1, seed: 7}}
"""


@dataclass(frozen=True)
class Said:
    """What one call of contend gave."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"

    def error(self, code: int, *words: str) -> Said:
        """It is one well-said error: that exit code, one `error:`, one `hint:`, no traceback, all the words."""
        assert self.code == code, self
        lines = self.err.splitlines()
        errors = [n for n, line in enumerate(lines) if line.startswith("error: ")]
        assert len(errors) == 1, self
        hint = lines[errors[0] + 1 :]
        assert hint, self
        assert hint[0].startswith("  hint: "), self
        assert len(hint[0]) > len("  hint: "), self
        for word in words:
            assert word in "\n".join(lines[errors[0] :]), f"'{word}' is not in:\n{self}"
        return self.no_traceback()

    def fine(self, code: int = 0) -> Said:
        assert self.code == code, self
        assert "error:" not in self.err, self
        return self.no_traceback()

    def no_traceback(self) -> Said:
        assert "Traceback" not in self.out + self.err, self
        return self

    def json(self) -> Any:
        """What the verb found, of stdout, which must be one document."""
        return data_in(self.out, self.code)


def _default_hangup() -> None:
    """The tests themselves may run under nohup, and what is ignored at the start of a shell it cannot trap."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class _Process(subprocess.Popen[Any]):
    """Ended where a test fails beside it: it would be waited for for ever, and with it all tests."""

    def __exit__(self, failed: type[BaseException] | None, *rest: Any) -> None:
        if failed is not None:
            self.kill()
        super().__exit__(failed, *rest)


class Home:
    """A directory with its own state, configuration and runs, so that tests see nothing but what they made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.state = path / "state"
        self.config = path / "config"
        self.workloads = self.config / "contend/workloads"
        self.workloads.mkdir(parents=True)
        for name, text in WORKLOADS.items():
            self.workload(name, text)

    def workload(self, name: str, text: str) -> None:
        (self.workloads / f"{name}.yaml").write_text(text, encoding="utf-8")

    def scenario(self, *, victim: str = "tiny", neighbour: str = "burner", blocks: int = 2) -> str:
        path = self.path / f"{victim}-{blocks}.yaml"
        text = SCENARIO.format(victim=victim, neighbour=neighbour, blocks=blocks)
        path.write_text(text, encoding="utf-8")
        return path.name

    def environment(self, **changes: str | None) -> dict[str, str]:
        own: dict[str, str | None] = {
            **os.environ,
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.config),
            "CONTEND_RUNS": None,
            **changes,
        }
        return {k: v for k, v in own.items() if v is not None}

    def start(self, *arguments: str, env: dict[str, str | None] | None = None, **options: Any) -> Any:
        """`contend ARGUMENTS` as a process; a fresh session, so that a signal meets it alone."""
        command = [CONTEND, *arguments]
        kept = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.path}
        kept |= {"env": self.environment(**(env or {})), "stdin": subprocess.DEVNULL}
        kept |= {"preexec_fn": _default_hangup}
        return _Process(command, start_new_session=True, **(kept | options))

    def __call__(
        self,
        *arguments: str,
        env: dict[str, str | None] | None = None,
        timeout: float = 120,
        **options: Any,
    ) -> Said:
        """`contend ARGUMENTS`, to its end: by a fork where nothing tells that from a start (support.quick_start)."""
        environment = self.environment(**(env or {}))
        if not options and quick_start.possible(environment):
            done = quick_start.run(arguments, cwd=self.path, env=environment, timeout=timeout)
            return Said(done.returncode, done.stdout, done.stderr)
        return self.anew(*arguments, env=env, timeout=timeout, **options)

    def pasted(self, command: str, *, timeout: float = 120) -> Said:
        """A command line that contend offered, as a shell of the user's runs it."""
        words = shlex.split(command)
        assert words[0] == "contend", command
        return self.anew(*words[1:], timeout=timeout)

    def anew(
        self,
        *arguments: str,
        env: dict[str, str | None] | None = None,
        timeout: float = 120,
        **options: Any,
    ) -> Said:
        """The same by an interpreter of its own, as a user has it."""
        with self.start(*arguments, env=env, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return Said(process.returncode, out or "", err or "")

    def run_directories(self) -> list[Path]:
        return sorted(self.runs.iterdir()) if self.runs.is_dir() else []

    def the_run(self) -> Path:
        (found,) = self.run_directories()
        return found

    def left(self) -> list[str]:
        """Everything on this host that is still there of this home's runs; zombies are no processes."""
        ids = {path.name for path in self.path.glob("**/ledger.ndjson") for path in (path.parent,)}
        found = [f"process {pid}: {line}" for pid, line in self._processes()]
        for base, folders, _ in os.walk("/sys/fs/cgroup"):
            found += [f"cgroup {base}/{name}" for name in folders if _is_of(name, ids)]
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        places = [line.split()[4] for line in mounts]
        found += [f"mount {p}" for p in places if any(run_id in p for run_id in ids)]
        found += [f"work files {p}" for p in self.path.glob("**/work") if (p.parent / "plan.json").exists()]
        pointers = self.state / "contend/runs"
        found += [f"pointer {p.name}" for p in (pointers.iterdir() if pointers.is_dir() else ())]
        found += [f"claim {claim.path}" for claim in claims.every() if claim.state == self.state.resolve()]
        netns = Path("/run/netns")
        hashes = _hashes(ids)
        found += [
            f"netns {p.name}"
            for p in (netns.iterdir() if netns.is_dir() else ())
            if p.name.startswith("contend-") and p.name.split("-")[1] in hashes
        ]
        return found

    def _processes(self) -> Iterator[tuple[int, str]]:
        """Live processes that some contend of this home started: its state directory is in their environment."""
        mark = f"XDG_STATE_HOME={self.state}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                values = (entry / "environ").read_bytes().split(b"\0")
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            except OSError:
                continue
            ours = mark in values and any(v.startswith(b"CONTEND_RUN=") for v in values)
            if ours and state not in "ZX":
                yield int(entry.name), line

    def nothing_left(self) -> None:
        left = self.left()
        assert not left, "left behind: " + "; ".join(left)


def _is_of(name: str, run_ids: set[str]) -> bool:
    base = re.sub(r"\.(limits|containers)$", "", name.removeprefix("contend."))
    return name.startswith("contend.") and base in run_ids


def _hashes(run_ids: set[str]) -> set[str]:
    from contend.names import short_hash

    return {short_hash(run_id) for run_id in run_ids}


def check_files(run: Path) -> None:
    """Every file of a run directory parses: JSON, whole NDJSON lines, Parquet (by DuckDB), the scenario."""
    import duckdb

    from contend.studies.scenarios import load

    for path in sorted(run.rglob("*")):
        if path.suffix == ".json":
            json.loads(path.read_text(encoding="utf-8"))
        elif path.suffix == ".ndjson":
            text = path.read_text(encoding="utf-8")
            assert not text or text.endswith("\n"), f"{path} has a torn last line"
            for line in text.splitlines():
                json.loads(line)
        elif path.suffix == ".parquet":
            assert duckdb.connect().execute("select * from read_parquet(?)", [str(path)]).fetchall()
        elif path.name == "scenario.yaml":
            load(str(path))
        assert not path.name.endswith(".part"), f"{path} is half a file"


def rows(run: Path) -> list[dict[str, Any]]:
    path = run / "trials.ndjson"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def wait_for(
    condition: Callable[[], object], what: str, timeout_s: float = 60, *, interval_s: float = 0.01
) -> None:
    """Poll until the condition holds; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"no {what} within {timeout_s:g} s"
        time.sleep(interval_s)
