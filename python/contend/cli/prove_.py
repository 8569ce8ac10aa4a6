"""`contend prove`: what a suspect costs a service that runs, by holding it back for moments."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from contend.cli.common import began_ns, finish, make_progress, runs_option
from contend.errors import BadInput, ScenarioError
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.studies.prove.model import Prove

MOST_BLOCKS = 1000


@click.command("prove", short_help="Prove what a neighbour costs a live service, by holding it back.")
@click.argument("victim", required=False, default="")
@click.option(
    "--against", multiple=True, metavar="SUSPECT", help="Whom to hold back for moments; repeatable."
)
@click.option(
    "--url", metavar="URL", help="Ask the victim here, at a fixed rate: its p99 latency is the figure."
)
@click.option("--rate", type=float, metavar="N", help="With --url: requests a second (default: 50).")
@click.option(
    "--for",
    "length",
    default="4m",
    metavar="TIME",
    show_default=True,
    help="End after this time at the latest.",
)
@click.option(
    "--by",
    type=click.Choice(["auto", "weight", "quota", "io-weight", "nice"]),
    default="auto",
    show_default=True,
    help="How a suspect is held back. auto: a tenth of its weight for CPUs and disks, or else nice 19.",
)
@click.option("--cpus", type=float, metavar="N", help="With --by quota: of so many CPUs (default: 0.1).")
@click.option("--trial", default="2s", metavar="TIME", show_default=True, help="For how long at a time.")
@click.option(
    "--consent", is_flag=True, help="Go on without asking: what is written is what --dry-run prints."
)
@click.option("--dry-run", is_flag=True, help="Print every write; make nothing.")
@click.option("--seed", type=int, metavar="N", help="Seed of the order (default: random, recorded).")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; progress goes to stderr.")
@runs_option
def command(
    victim: str,
    against: tuple[str, ...],
    consent: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    runs: Path,
    **options: Any,
) -> int:
    """Hold a suspect back for moments at random, and compare the victim with and without.

    A controlled experiment on what runs here: nothing is started or ended, and no load is added but the requests of --url.
    In a third of the time or less the suspect has a tenth of its weight (--by). A control makes the same writes without
    changing anything. Each change is announced in the run's ledger. It is put back and read back after each trial; by a
    watchdog where contend is killed or stopped; and by `contend destroy`. What somebody else changes meanwhile ends the
    experiment, and stays. It needs root, or a right to the suspect's settings.

    VICTIM and SUSPECT are units, cgroups, containers, libvirt machines, pids or programs. With --url the victim may be left
    out, or be any name. Without it, VICTIM is followed: its figure is the time that it worked or waited to go on, by its CPU
    time.

    \b
    Examples:
      contend prove shop.service --against backup.service --dry-run      every write, before any
      contend prove checkout --url http://127.0.0.1:8080/cart --against backup.service --for 4m
      contend prove 4711 --against rsync --against updatedb --by nice
    """
    from contend.cli.run_ import _dry_run
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.studies.prove.holding import lines, switches

    scenario = scenario_of(victim, against, **options)
    repeated = commandline(victim, against, **options)
    with checking(scenario.measure.budget, began_ns()):
        if dry_run:
            return _dry_run(scenario, (), as_json)
        writes = list(lines(switches(scenario)))
    if not consent:
        _ask(writes)
    outcome = orchestrator.execute(
        scenario,
        name="prove",
        command=repeated,
        runs=runs,
        progress=make_progress(as_json),
        began_ns=began_ns(),
    )
    return finish(outcome, verbose=verbose, as_json=as_json)


def scenario_of(victim: str, against: tuple[str, ...], **options: Any) -> Prove:
    """The scenario that the options ask for. Raises BadInput."""
    import yaml

    from contend.platforms import procfs
    from contend.scenario.yaml_file import read_yaml
    from contend.studies.scenarios import parse

    if not against:
        raise BadInput(
            "nobody is suspected",
            hint="--against backup.service; contend watch shows who runs while others wait",
        )
    what = _victim(victim, options["url"], options["rate"])
    called = f"{procfs.name(int(victim))} ({victim})" if victim.isdecimal() else victim
    document = {
        "study": "prove",
        "title": f"What do {', '.join(against)} cost {called or options['url']}?",
        "victim": what,
        "called": called,
        "suspects": list(against),
        "by": options["by"],
        "measure": {"budget": options["length"], "trial": options["trial"], "most": MOST_BLOCKS, "pilot": 1},
    }
    if options["cpus"] is not None:
        document["cpus"] = options["cpus"]
    if options["seed"] is not None:
        document["measure"]["seed"] = options["seed"]
    return cast("Prove", parse(read_yaml(yaml.safe_dump(document), "contend prove", ScenarioError)))


def _victim(victim: str, url: str | None, rate: float | None) -> dict[str, Any]:
    if url is not None:
        return {"service": {"url": url} | ({} if rate is None else {"rate": rate})}
    if rate is not None:
        raise BadInput(f"--rate {rate:g} goes with --url", hint="--url http://127.0.0.1:8080/ --rate 50")
    if not victim:
        raise BadInput(
            "no victim is named",
            hint="contend prove shop.service --against …, or --url http://127.0.0.1:8080/",
        )
    from contend.contention.tenants import tenant
    from contend.platforms import procfs

    statuses = {status.pid: status for status in procfs.processes(tenant(victim).pids)}
    roots = [status for status in statuses.values() if status.ppid not in statuses]
    if not roots:
        raise BadInput(f"{victim} has no process that could be followed", hint="--url asks it instead")
    return {"process": {"pid": min(roots, key=lambda status: status.start_ticks).pid}}


def commandline(victim: str, against: tuple[str, ...], **options: Any) -> str:
    """The command that repeats the experiment."""
    defaults = {"length": "4m", "by": "auto", "trial": "2s"}
    words = ["contend", "prove", *([victim] if victim else [])]
    for name in against:
        words += ["--against", name]
    for key, value in options.items():
        if value is not None and value != defaults.get(key):
            words += [
                f"--{ {'length': 'for'}.get(key, key) }",
                f"{value:g}" if isinstance(value, float) else str(value),
            ]
    return shlex.join(words)


def _ask(writes: list[str]) -> None:
    """Raises BadInput where nobody can be asked, or says no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(
            "others' limits are changed only with consent", hint="--dry-run shows every write; then --consent"
        )
    for line in writes:
        print(f"  {printable(line)}", file=sys.stderr)
    print(
        "For moments at a time, and put back after each. Go on? [y/N] ", end="", file=sys.stderr, flush=True
    )
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("nothing was changed", hint="--dry-run shows every write")
