"""`contend ab`: any two commands, interleaved in one run."""

from __future__ import annotations

import contextlib
import shlex
import string
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from contend.cli.common import began_ns, finish, load_report, make_progress, runs_option, typed
from contend.cli.own_command import line, parse_metric
from contend.errors import BadInput, ScenarioError, TrialFailed
from contend.text.masking import mask

if TYPE_CHECKING:
    from contend.engine.execution import Outcome
    from contend.studies.compare.model import Compare


F = TypeVar("F", bound=Callable[..., Any])


def _exported(form: str, what: str) -> Callable[[F], F]:
    """`--export-FORM FILE`."""
    return click.option(
        f"--export-{form}",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"Also write {what}; - for stdout.",
    )


@click.command(
    "ab", short_help="Compare two commands, interleaved.", context_settings={"ignore_unknown_options": False}
)
@click.option(
    "-p",
    "--prepare",
    metavar="CMD",
    default="",
    help="Run before every trial, not timed: restart a service, clear a cache. What it starts stays.",
)
@click.option(
    "-C",
    "--stop",
    "--conclude",
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
    help="Twice, or more often: compare one command at these git revisions of this repository.",
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
    help="For each: what to call it (default: A, B, or the revision).",
)
@click.option("--shell", is_flag=True, help="Run each command by sh -c.")
@click.option(
    "--fail-above",
    metavar="PERCENT",
    help="As a gate: exit 4 if the headline metric is worse than the first command's by more than this beyond its interval,"
    " 5 if that is undecided.",
)
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
    "-n",
    "-r",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run each command exactly N times, and the first twice as often for the control.",
)
@click.option(
    "-w",
    "--warmup",
    type=click.IntRange(min=0, max=50),
    metavar="N",
    help="Rounds that are thrown away, first (default: 3).",
)
@click.option(
    "-m",
    "--blocks",
    "--min-runs",
    default=15,
    metavar="N",
    show_default=True,
    help="Counted blocks before the first look; a block runs each command once.",
)
@click.option(
    "-M", "--most", "--max-runs", default=60, metavar="N", show_default=True, help="Counted blocks at most."
)
@click.option("--budget", metavar="TIME", help="Wall time of it all but tear-down, like 5m.")
@click.option(
    "--timeout", default="1h", metavar="TIME", show_default=True, help="Longest time one trial may take."
)
@click.option(
    "--seed", type=int, metavar="N", help="Seed of the order of trials (default: random, recorded)."
)
@click.option("--dry-run", is_flag=True, help="Print cells and order; make nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print the answer alone: no progress, no table.")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@_exported("json", "the results as hyperfine does, with the ratios")
@_exported("markdown", "a table of the results")
@_exported("csv", "the results as hyperfine does")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON document on stdout; progress goes to stderr, where that is a terminal.",
)
@runs_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="CMD_A CMD_B | -- CMD_A --vs CMD_B")
def command(
    words: tuple[str, ...],
    runs: Path,
    dry_run: bool,
    quiet: bool,
    verbose: bool,
    as_json: bool,
    seed: int | None,
    export_json: Path | None,
    export_markdown: Path | None,
    export_csv: Path | None,
    fail_above: str | None,
    **options: Any,
) -> int:
    """Compare two commands, or more. Their trials alternate in random order within blocks, with an A/A control.

    \b
    Examples:
      contend ab 'gzip -6 -k -c big.txt' 'gzip -9 -k -c big.txt'
      contend ab -- gzip -9 -k -c big.txt --vs zstd -19 -k -c big.txt
      contend ab --prepare 'systemctl restart mysvc' -- ./bench --old --vs ./bench --new
      contend ab --metric 'rps:1/s:higher=Requests/sec: +([0-9.]+)' -- wrk http://a/ --vs wrk http://b/
      contend ab --rev main --rev HEAD --build 'make -j2' -- ./bench
      contend ab --rev main --rev HEAD --build 'make -j2' --fail-above 5% --target 1% -- ./bench
    """
    from contend.cli import dry_run as ahead
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.units import parse_fraction

    limit = None if fail_above is None else parse_fraction(fail_above)
    runs, options["count"] = _count(runs, options["count"])
    exports = {"json": export_json, "markdown": export_markdown, "csv": export_csv}
    _refuse_two_on_stdout(exports, as_json)
    options["blocks"] = _blocks(options)
    scenario = scenario_of(words, seed=seed, **options)
    if dry_run:
        with checking(scenario.measure.budget, began_ns()):
            return ahead.show(scenario, (), as_json)
    repeated = commandline(words, seed=seed, fail_above=fail_above, **options)
    try:
        outcome = orchestrator.execute(
            scenario,
            name="ab",
            command=repeated,
            runs=runs,
            progress=make_progress(as_json, quiet=quiet),
            began_ns=began_ns(),
            fail_above=limit,
        )
    except TrialFailed as error:
        if options["revs"]:
            error.hint += f"; {CLEAN_CLONE}"
        raise
    with contextlib.ExitStack() as stdout:
        if any(str(path) == "-" for path in exports.values()):  # what reads it gets the export alone
            stdout.enter_context(contextlib.redirect_stdout(sys.stderr))
        code = finish(outcome, verbose=verbose, as_json=as_json, quiet=quiet)
    if any(exports.values()):
        _export(outcome, exports)
    return code


CLEAN_CLONE = "it ran in a clean clone of the revision: files that are not committed are made by --build"


def _count(runs: Path, count: int | None) -> tuple[Path, int | None]:
    """Where runs go, and how often each command runs: `--runs 10`, as hyperfine has it, is no directory."""
    if not str(runs).isdecimal():
        return runs, count
    if count is not None and count != int(str(runs)):
        raise BadInput(
            f"--runs {runs} and -n {count}", hint=f"-n {count}; a directory of that name is ./{runs}"
        )
    return Path("runs"), max(1, int(str(runs)))


def _blocks(options: Mapping[str, Any]) -> int:
    """Blocks before the first look. Raises BadInput where options say different things."""
    if options["count"] is not None:
        also = ["--target"] * (typed("target") and options["target"] != "none")  # -n has none anyway
        also += [option for name, option in (("blocks", "-m"), ("most", "-M")) if typed(name)]
        if also:
            raise BadInput(f"-n says how often, and {also[0]} when to stop", hint="give one of them")
    blocks, most = int(options["blocks"]), int(options["most"])
    if most < blocks and typed("most"):
        if typed("blocks"):
            raise BadInput(f"-M {most} is fewer than -m {blocks}", hint=f"-m {most} -M {blocks}")
        return most
    return blocks


def _refuse_two_on_stdout(exports: Mapping[str, Path | None], as_json: bool) -> None:
    """Raises BadInput where what reads stdout would get two documents."""
    there = ["--json"] * as_json + [
        f"--export-{form} -" for form, path in exports.items() if str(path) == "-"
    ]
    if len(there) > 1:
        raise BadInput(f"{' and '.join(there)} both write to stdout", hint="name a file for one of them")


def _export(outcome: Outcome, exports: Mapping[str, Path | None]) -> None:
    """Write the results in the forms that were asked for. Raises HostFailed."""
    from contend.files import write
    from contend.report.benchmark_export import render

    report = load_report(outcome.run)
    for form, path in exports.items():
        if path is not None:
            text = render(report, form)
            if str(path) == "-":
                print(text, end="")
            else:
                write(path, text.encode())


def scenario_of(words: tuple[str, ...], *, seed: int | None, **o: Any) -> Compare:
    """The scenario that the command line means. Raises BadInput."""
    import yaml

    from contend.scenario.yaml_file import read_yaml
    from contend.studies.scenarios import parse

    sides = _sides(words, o["revs"])
    names = o["names"] or tuple(o["revs"]) or tuple(string.ascii_uppercase[: len(sides)])
    if len(names) != len(sides) or len(set(names)) < len(names):
        raise BadInput(f"{len(sides)} commands need as many different names", hint="--name old --name new")
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
    measure: dict[str, Any] = {
        "blocks": o["blocks"],
        "most": max(o["most"], o["blocks"]),
        "target": None if o["target"] == "none" else o["target"],
    }
    if o["count"]:
        measure |= {"blocks": o["count"], "most": o["count"], "target": None}
    if o["warmup"] is not None:
        measure["pilot"] = o["warmup"]
    if o["budget"]:
        measure["budget"] = o["budget"]
    if seed is not None:
        measure["seed"] = seed
    document = {
        "study": "compare",
        "title": f"Which is faster: {', or '.join(map(_short, sides))}?"
        if not o["revs"]
        else f"{_short(sides[0])}: {', or '.join(names)}?",
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


def _sides(words: tuple[str, ...], revs: tuple[str, ...]) -> tuple[str, ...]:
    """The command lines. Without --vs each word is one, as in other tools; with it, one word with spaces is a command line,
    and several words are its words."""
    if revs:
        if len(revs) < 2:
            raise BadInput("--rev was given once: two are compared, or more", hint="--rev main --rev HEAD")
        if not words or "--vs" in words:
            raise BadInput(
                "with --rev there is one command for all", hint="contend ab --rev main --rev HEAD -- ./bench"
            )
        return (line(words),) * len(revs)
    if "--vs" not in words and (
        len(words) == 2 or (len(words) > 2 and all(len(w.split()) > 1 for w in words))
    ):
        return tuple(line((word,)) for word in words)
    if "--vs" not in words:
        raise BadInput(
            "there must be two commands, or more",
            hint="contend ab 'CMD_A' 'CMD_B', or: contend ab -- CMD_A --vs CMD_B",
        )
    sides: list[list[str]] = [[]]
    for word in words:
        if word == "--vs":
            sides.append([])
        else:
            sides[-1].append(word)
    if not all(sides):
        raise BadInput("one of the commands is empty", hint="contend ab -- CMD_A --vs CMD_B")
    return tuple(map(line, sides))


def commandline(words: tuple[str, ...], **options: Any) -> str:
    """The command to repeat the run, with every option that was not its default."""
    defaults = {"target": "2%", "blocks": 15, "most": 60, "timeout": "1h"}
    flags = {"metrics": "metric", "revs": "rev", "names": "name"}
    warmup = ["--warmup", "0"] if options.get("warmup") == 0 else []
    parts = ["contend", "ab"]
    for key, value in options.items():
        name = "--" + flags.get(key, key).replace("_", "-")
        if not value or value == defaults.get(key):
            continue
        for item in value if isinstance(value, tuple) else (value,):
            parts += [name] if item is True else [name, str(item)]
    return shlex.join([*parts, *warmup, "--", *words])


def _short(text: str) -> str:
    text = mask(text)  # before it is cut: half a secret is one
    return text if len(text) <= 50 else text[:49] + "…"
