"""`contend ab`: any two commands, interleaved in one run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from contend.cli.common import began_ns, finish, make_progress, runs_option
from contend.errors import BadInput, ScenarioError
from contend.text.masking import mask

if TYPE_CHECKING:
    from contend.studies.compare.model import Compare
    from contend.workloads.spec import Metric

BUILTIN = {"wall": "s", "cpu": "s", "user": "s", "system": "s", "max_rss": "MiB"}
_METRIC = re.compile(
    r"^(?P<name>[a-z][a-z0-9_]*)(?::(?P<unit>[^:=]+))?(?::(?P<better>higher|lower))?=(?P<source>.+)$", re.S
)


@click.command(
    "ab", short_help="Compare two commands, interleaved.", context_settings={"ignore_unknown_options": False}
)
@click.option(
    "--prepare",
    metavar="CMD",
    default="",
    help="Run before every trial, not timed: restart a service, clear a cache. What it starts stays.",
)
@click.option(
    "--stop",
    metavar="CMD",
    default="",
    help="Run after every trial, not timed: end what --prepare or the command has left running.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="SPEC",
    help="wall, cpu, user, system, max_rss, or NAME[:UNIT[:higher|lower]]=REGEX-or-$.JSONPATH read from the"
    " command's output. The first is the headline. max_rss is an upper bound for commands below 60 ms.",
)
@click.option(
    "--rev",
    "revs",
    multiple=True,
    metavar="REV",
    help="Twice: compare one command at two git revisions of this repository.",
)
@click.option(
    "--build",
    metavar="CMD",
    default="",
    help="With --rev: run once in each revision's clone, before the first trial.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Twice: what to call the two sides (default: A and B).",
)
@click.option("--shell", is_flag=True, help="Run each command by sh -c.")
@click.option(
    "--randomise",
    type=click.Choice(["layout"]),
    help="Run trials with layouts of the programs in memory that are drawn by chance (size of the environment, and so where"
    " the stack begins; with --build also the order in which objects are linked), and say what these make alone.",
)
@click.option(
    "--instructions",
    is_flag=True,
    help="Count those of one run of each command, before the first trial: by the processor's counters (perf), else by"
    " valgrind, some fifty times as slowly.",
)
@click.option(
    "--target",
    metavar="PERCENT",
    default="2%",
    show_default=True,
    help="Stop when the interval is this narrow (half-width); 'none' runs exactly --blocks.",
)
@click.option(
    "--blocks", default=15, metavar="N", show_default=True, help="Counted blocks before the first look."
)
@click.option("--most", default=60, metavar="N", show_default=True, help="Counted blocks at most.")
@click.option("--budget", metavar="TIME", help="Wall time of it all but tear-down, like 5m.")
@click.option(
    "--timeout", default="1h", metavar="TIME", show_default=True, help="Longest time one trial may take."
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the order of trials (default: random, recorded)."
)
@click.option("--dry-run", is_flag=True, help="Print cells and order; make nothing.")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; progress goes to stderr.")
@runs_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD_A --vs CMD_B")
def command(
    words: tuple[str, ...],
    runs: Path,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    seed: int | None,
    **options: Any,
) -> int:
    """Compare two commands. Trials of both alternate in random order within blocks, with an A/A control.

    \b
    Examples:
      contend ab -- gzip -9 -k -c big.txt --vs zstd -19 -k -c big.txt
      contend ab --prepare 'systemctl restart mysvc' -- ./bench --old --vs ./bench --new
      contend ab --metric 'rps:1/s:higher=Requests/sec: +([0-9.]+)' -- wrk http://a/ --vs wrk http://b/
      contend ab --rev main --rev HEAD --build 'make -j2' -- ./bench
    """
    from contend.cli.run_ import _dry_run
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking

    scenario = scenario_of(words, seed=seed, **options)
    if dry_run:
        with checking(scenario.measure.budget, began_ns()):
            return _dry_run(scenario, (), as_json)
    repeated = command_line(words, seed=seed, **options)
    outcome = orchestrator.execute(
        scenario,
        name="ab",
        command=repeated,
        runs=runs,
        progress=make_progress(as_json),
        began_ns=began_ns(),
    )
    return finish(outcome, verbose=verbose, as_json=as_json)


def scenario_of(words: tuple[str, ...], *, seed: int | None, **o: Any) -> Compare:
    """The scenario that the command line means. Raises BadInput."""
    import yaml

    from contend.scenario.yaml_file import read_yaml
    from contend.studies.scenarios import parse

    sides = _sides(words, o["revs"])
    names = o["names"] or tuple(o["revs"]) or ("A", "B")
    if len(names) != 2 or names[0] == names[1]:
        raise BadInput("the two sides need two different names", hint="--name old --name new")
    here = str(Path.cwd())
    variants = []
    for index, (name, text) in enumerate(zip(names, sides, strict=True)):
        variant = {
            "name": name,
            "command": text if not o["shell"] else shlex.join(["sh", "-c", text]),
            "directory": here,
        }
        if o["prepare"]:
            variant["prepare"] = shlex.join(["sh", "-c", o["prepare"]])
        if o["stop"]:
            variant["stop"] = shlex.join(["sh", "-c", o["stop"]])
        if o["revs"]:
            variant |= {"rev": o["revs"][index], "build": o["build"]}
        elif o["build"]:
            raise BadInput("--build goes with --rev", hint="build both before, or compare two revisions")
        variants.append(variant)
    measure = {
        "blocks": o["blocks"],
        "most": max(o["most"], o["blocks"]),
        "target": None if o["target"] == "none" else o["target"],
    }
    if o["budget"]:
        measure["budget"] = o["budget"]
    if seed is not None:
        measure["seed"] = seed
    document = {
        "study": "compare",
        "title": f"Which is better: {_short(sides[0])}, or {_short(sides[1])}?"
        if not o["revs"]
        else f"{_short(sides[0])}: {names[0]}, or {names[1]}?",
        "variants": variants,
        "metrics": {
            name: metric.model_dump(by_alias=True, exclude_defaults=True)
            for name, metric in map(parse_metric, o["metrics"])
        },
        "measure": measure,
        "timeout": o["timeout"],
        **({"randomise": o["randomise"]} if o["randomise"] else {}),
        **({"instructions": True} if o["instructions"] else {}),
    }
    scenario = parse(read_yaml(yaml.safe_dump(document), "contend ab", ScenarioError))
    return cast("Compare", scenario)


def _sides(words: tuple[str, ...], revs: tuple[str, ...]) -> tuple[str, str]:
    """The two command lines. One word with spaces is a command line, as in other tools; several words are its words."""
    if revs:
        if len(revs) != 2:
            raise BadInput(
                f"--rev was given {len(revs)} time{'s' if len(revs) != 1 else ''}, not twice",
                hint="--rev main --rev HEAD",
            )
        if not words or "--vs" in words:
            raise BadInput(
                "with --rev there is one command for both", hint="contend ab --rev main --rev HEAD -- ./bench"
            )
        return _line(words), _line(words)
    if words.count("--vs") != 1:
        raise BadInput(
            "there must be two commands with --vs between them", hint="contend ab -- CMD_A --vs CMD_B"
        )
    middle = words.index("--vs")
    first, second = words[:middle], words[middle + 1 :]
    if not first or not second:
        raise BadInput("one of the two commands is empty", hint="contend ab -- CMD_A --vs CMD_B")
    return _line(first), _line(second)


def _line(words: tuple[str, ...]) -> str:
    if len(words) == 1:
        try:
            parts = shlex.split(words[0])
        except ValueError as error:
            raise BadInput(
                f"cannot split the command '{words[0]}': {error}", hint="close the quote"
            ) from error
        if not parts:
            raise BadInput("one of the two commands is empty", hint="contend ab -- CMD_A --vs CMD_B")
        return words[0]
    return shlex.join(words)


def parse_metric(text: str) -> tuple[str, Metric]:
    """
    >>> name, metric = parse_metric("rps:1/s:higher=Requests/sec: +([0-9.]+)")
    >>> name, metric.unit, metric.better, metric.pattern
    ('rps', '1/s', 'higher', 'Requests/sec: +([0-9.]+)')
    """
    from pydantic import ValidationError

    from contend.workloads.spec import Metric

    if text in BUILTIN:
        scale = 1 / 2**20 if text == "max_rss" else 1.0
        return text, Metric(builtin=text, unit=BUILTIN[text], better="lower", scale=scale)
    match = _METRIC.match(text)
    if match is None:
        raise BadInput(
            f"--metric '{text}' is none of {', '.join(BUILTIN)}, nor NAME[:UNIT[:higher|lower]]=SOURCE",
            hint="like 'rps:1/s:higher=Requests/sec: +([0-9.]+)' or 'p99:s=$.latency.p99'",
        )
    source = match["source"]
    reader = {"path": source} if source.startswith("$") else {"pattern": source}
    better = match["better"] or "lower"
    try:
        return match["name"], Metric.model_validate(
            {"from": "stdout", "unit": match["unit"] or "", "better": better, **reader}
        )
    except ValidationError as error:
        first = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadInput(
            f"--metric '{text}': {first}",
            hint="a pattern has one (group) around the figure; a path begins with $",
        ) from error


def command_line(words: tuple[str, ...], **options: Any) -> str:
    """The command to repeat the run, with every option that was not its default."""
    defaults = {"target": "2%", "blocks": 15, "most": 60, "timeout": "1h"}
    flags = {"metrics": "metric", "revs": "rev", "names": "name"}
    parts = ["contend", "ab"]
    for key, value in options.items():
        name = "--" + flags.get(key, key)
        if not value or value == defaults.get(key):
            continue
        for item in value if isinstance(value, tuple) else (value,):
            parts += [name] if item is True else [name, str(item)]
    return shlex.join([*parts, "--", *words])


def _short(text: str) -> str:
    text = mask(text)  # before it is cut: half a secret is one
    return text if len(text) <= 50 else text[:49] + "…"
