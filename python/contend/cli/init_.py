"""`contend init`: a workload file from a command, tried at once."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contend.cli import own_command
from contend.cli.common import shown
from contend.errors import BadInput, TrialFailed
from contend.files import config_home
from contend.text.command import command_name

if TYPE_CHECKING:
    from contend.workloads.guess import Guess
    from contend.workloads.spec import Workload

LEAST_TRIAL_S = 0.1
MOST_METRICS = 6


@click.command("init", short_help="Write a workload file from a command.", cls=own_command.TakesCommand)
@click.option("--name", metavar="NAME", help="Name of the workload (default: the program's).")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write this file (default: NAME.yaml among your own workloads, ~/.config/contend/workloads).",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="What to read, as in contend ab, in place of a guess. The first is the headline.",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing; take the likeliest headline.")
def command(name: str | None, output: Path | None, metrics: tuple[str, ...], yes: bool) -> int:
    """Run COMMAND once, find figures in its output, and write a workload file that reads them.

    The file is then a workload like contend's own: a victim, a neighbour or an application of any study. On a terminal
    contend asks which figure is the headline.

    \b
    Examples:
      contend init -- ./mine --json
      contend init --name mine --metric 'rps:1/s:higher=Requests/sec: +([0-9.]+)' -- wrk http://127.0.0.1/
      contend run noisy-neighbour --set victims=mine
    """
    from contend.workloads.load import load_file

    line = own_command.given(None)
    if not line:
        raise BadInput("no command was given", hint="contend init -- ./mine --flag")
    name = name or command_name(line)
    path = output or config_home() / "workloads" / f"{name}.yaml"
    if path.exists():
        raise BadInput(f"{path} exists already", hint="remove it, or give another name: --name, or -o FILE")
    took_s, printed = _tried(line)
    print(f"{line} took {took_s:.2f} s")
    if metrics:
        chosen: dict[str, Any] = {
            of: metric.model_dump(by_alias=True, exclude_defaults=True)
            for of, metric in map(own_command.parse_metric, metrics)
        }
    else:
        chosen = _chosen(printed, ask=not yes and sys.stdin.isatty() and sys.stdout.isatty())
    text = _file(name, line, chosen, took_s)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.part")
    half.write_text(text, encoding="utf-8")
    try:
        # Both raise in the words of `contend validate` and of a run for what could not be used.
        _read(load_file(half), printed, took_s)
        half.rename(path)
    finally:
        half.unlink(missing_ok=True)
    read = ", ".join(chosen)
    print(f"wrote {shown(path)}: it reads {read}")
    known = name if output is None else str(path)
    print(f"try it: contend run noisy-neighbour --set victims={shlex.quote(known)}")
    return 0


def _tried(line: str) -> tuple[float, str]:
    """Run it once: the seconds that it took, and its output. Raises BadInput, or TrialFailed where it fails."""
    words = shlex.split(line)
    if shutil.which(words[0]) is None:
        raise BadInput(
            f"there is no program '{words[0]}'", hint="give its path; what only a shell knows: sh -c '…'"
        )
    began = time.monotonic()
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    took_s = time.monotonic() - began
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["(no output)"]
        raise TrialFailed(
            f"{words[0]} failed with exit status {done.returncode}", hint=f"its last line: {last[0]}"
        )
    return took_s, done.stdout


def _read(workload: Workload, printed: str, took_s: float) -> None:
    """Read its metrics from the output, as a run would. Raises TrialFailed."""
    from contend.workloads.metrics import read_metrics

    with tempfile.TemporaryDirectory(prefix="contend-init-") as folder:
        out, err = Path(folder) / "stdout", Path(folder) / "stderr"
        out.write_text(printed, encoding="utf-8")
        err.touch()
        clock = dict.fromkeys(("wall", "cpu", "user", "system", "max_rss"), took_s)
        read_metrics(workload, Path(folder), [out], [err], clock)


def _chosen(printed: str, *, ask: bool) -> dict[str, Any]:
    """Metrics of the file, the headline first."""
    from contend.workloads.guess import guesses

    wall = {"builtin": "wall", "unit": "s", "better": "lower"}
    cpu = {"builtin": "cpu", "unit": "s", "better": "lower"}
    figures = [guess for guess in guesses(printed) if guess.name not in ("wall", "cpu")][:MOST_METRICS]
    if ask and figures:
        figures = _choice(figures)
    own = {guess.name: guess.metric("stdout") for guess in figures}
    # A rate of its own says more of a program than how long it ran; of times, contend's clock is surer.
    first = own if figures and (ask or figures[0].better == "higher") else {}
    return {**first, "wall": wall, "cpu": cpu, **own}


def _choice(figures: list[Guess]) -> list[Guess]:
    print("Figures in its output:")
    for number, guess in enumerate(figures, 1):
        print(f"  {number}  {guess.name} = {guess.value:g} {guess.unit}  ({guess.better} is better)")
    answer = click.prompt("Which is the headline? Enter takes its wall time", default="", show_default=False)
    if not str(answer).strip():
        return []
    if not str(answer).strip().isdecimal() or not 1 <= int(answer) <= len(figures):
        raise BadInput(
            f"'{answer}' is no number from 1 to {len(figures)}", hint="run it again; nothing was written"
        )
    first = figures[int(answer) - 1]
    better = click.prompt(
        "higher or lower is better?", default=first.better, type=click.Choice(["higher", "lower"])
    )
    return [replace(first, better=better), *(guess for guess in figures if guess is not first)]


def _file(name: str, line: str, metrics: dict[str, Any], took_s: float) -> str:
    import yaml

    from contend.studies.cell import escape

    body = {
        "name": name,
        "title": line,
        "directory": escape(os.getcwd()),  # noqa: PTH109
        "run": escape(line),
        "metrics": metrics,
        "dominant": "cpu",
        "trial": f"{max(LEAST_TRIAL_S, took_s):.2g}s",
    }
    text: str = yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=110)
    return f"# Written by contend init. Every key: contend validate --schema workload\n{text}"
