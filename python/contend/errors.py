"""Every error a user can meet, as one tree.

ContendError            exit code 1   something went wrong while doing what was asked
├── BadInput            exit code 2   what was asked cannot be done as written; nothing was started
│   ├── ScenarioError                 a scenario, `--set` or command-line value
│   ├── WorkloadError                 a workload file
│   ├── UnknownName                   no such scenario, workload, platform, run
│   └── CannotHonour                  this host cannot give what the scenario asks for
├── TrialFailed                       one trial ended without a usable result (the run goes on)
├── HostFailed                        the host under the run broke: disk full, cgroup gone, server did not start
│   └── ProbeEnded                    contend-probe died or fell silent; what is measured goes on without it
├── ThresholdCrossed    exit code 4   a stated threshold was crossed beyond the interval
└── NoVerdict           exit code 5   a verdict was asked for and the data cannot give it

Each carries a message that names the offending value and a `hint` that names the next action.
"""

from __future__ import annotations

from collections.abc import Iterable


class ContendError(Exception):
    """Base of every error contend raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(ContendError):
    exit_code = 2


class ScenarioError(BadInput):
    pass


class WorkloadError(BadInput):
    pass


class UnknownName(BadInput):
    """A name that is not in a known set; the hint suggests the nearest one.

    >>> UnknownName("workload", "ffmpg", ["ffmpeg", "fio"]).hint
    "did you mean 'ffmpeg'? (`contend list workloads` shows all)"
    """

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        command = "ls runs" if what == "run" else f"contend list {what}s"
        super().__init__(f"no {what} is called '{name}'", hint=suggest(name, known, command))


class CannotHonour(BadInput):
    pass


class TrialFailed(ContendError):
    pass


class HostFailed(ContendError):
    pass


class ProbeEnded(HostFailed):
    pass


class ThresholdCrossed(ContendError):
    exit_code = 4


class NoVerdict(ContendError):
    exit_code = 5


def suggest(name: str, known: Iterable[str], command: str = "") -> str:
    """The hint for a misspelt name: the nearest known one, else the list.

    >>> suggest("victim", ["victims", "neighbours"])
    "did you mean 'victims'?"
    >>> suggest("zzz", ["a", "b"])
    'known: a, b'
    """
    import difflib  # only where something is misspelt

    names = sorted(known)
    # What is much longer than any name is none of them, and difflib takes the square of its length.
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5) if len(name) <= 100 else []
    if near:
        return f"did you mean '{near[0]}'?" + (f" (`{command}` shows all)" if command else "")
    listed = ", ".join(names)
    return f"known: {listed}" if len(listed) < 200 else f"`{command or 'contend list'}` shows what is known"
