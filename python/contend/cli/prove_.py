"""`contend prove`: what a suspect costs a service that runs, by holding it back for moments."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from contend.cli import live_victims, own_command
from contend.cli.common import began_ns, finish, make_progress, print_answer, runs_option, typed
from contend.cli.live_victims import figure_options, victim_workload
from contend.errors import BadInput, ScenarioError
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.contention.tenants import Tenant
    from contend.platforms.treatments import Switch
    from contend.studies.prove.model import Prove

MOST_BLOCKS = 1000
MOST_WATCHED = 3
"""Suspects that a watch names: all of their combinations are tried."""


@click.command(
    "prove",
    short_help="Prove what a neighbour costs a live service, by holding it back.",
    cls=own_command.TakesCommand,
)
@click.argument("victim", required=False, default="")
@click.option(
    "--against",
    multiple=True,
    metavar="SUSPECT",
    help="Whom to hold back for moments; repeatable. Without it: who had what the victim waited for, by a watch.",
)
@click.option(
    "--watch",
    "watched",
    default="10s",
    metavar="TIME",
    show_default=True,
    help="Without --against: watch the victim for so long.",
)
@figure_options
@click.option(
    "--for",
    "--budget",
    "length",
    default="4m",
    metavar="TIME",
    show_default=True,
    help="End after this time at the latest.",
)
@click.option(
    "--by",
    type=click.Choice(
        ["auto", "weight", "quota", "io-weight", "io-limit", "cpuset", "nice", "group", "freeze"]
    ),
    default="auto",
    show_default=True,
    help="How a suspect is held back. auto: a tenth of its weight for CPUs and disks, or else nice 19, or else group:"
    " in a control group of its own for moments, where it shares one with others.",
)
@click.option("--cpus", type=float, metavar="N", help="With --by quota: of so many CPUs (default: 0.1).")
@click.option(
    "--io", metavar="BYTES", help="With --by io-limit: so much a second from and to each disk (default: 1MB)."
)
@click.option("--apart", metavar="CPUS", help="With --by cpuset: the CPUs it may use then, as 6-7.")
@click.option("--allow-freeze", is_flag=True, help="With --by freeze: stop it, and all who wait for it.")
@click.option("--trial", default="2s", metavar="TIME", show_default=True, help="For how long at a time.")
@click.option(
    "--guard",
    metavar="URL",
    help="End the experiment when this does not answer within 500 ms for 2 s: somebody who must not suffer.",
)
@click.option(
    "--consent", is_flag=True, help="Go on without asking: what is written is what --dry-run prints."
)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Who may be held back without asking (default: /etc/contend/prove.yaml).",
)
@click.option("--dry-run", is_flag=True, help="Print every write; make nothing.")
@click.option("--seed", type=int, metavar="N", help="Seed of the order (default: random, recorded).")
@click.option("-v", "--verbose", is_flag=True, help="Show every metric and control.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON document on stdout; progress goes to stderr, where that is a terminal.",
)
@runs_option
def command(
    victim: str,
    against: tuple[str, ...],
    watched: str,
    consent: bool,
    policy_file: Path | None,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    runs: Path,
    **options: Any,
) -> int:
    """Hold a suspect back for moments at random, and compare the victim with and without.

    A controlled experiment on what runs here: nothing is started or ended, and no load is added but the requests of --url.
    In less than half of the time a suspect has a tenth of its weight (--by); several are held back one by one, and together.
    A control makes the same writes without changing anything. Each change is announced in the run's ledger. It is put back
    and read back after each trial; by a watchdog where contend is killed or stopped; and by `contend destroy`. What somebody
    else changes meanwhile ends the experiment, and stays. It needs root, or a right to the suspect's settings.

    VICTIM and SUSPECT are units, cgroups, containers, libvirt machines, pids or programs. With --url the victim may be left
    out, or be any name. With --metrics or --log its figure is read where it exports or logs it. A command after -- is run
    in each trial: its wall time is the figure. Without any of these VICTIM is followed: its figure is the time that it
    worked or waited to go on, by its CPU time. Where nobody can be asked, --consent or a policy of the host allows the
    writes.

    \b
    Examples:
      contend prove shop.service                                         a watch names the suspects
      contend prove shop.service --against backup.service --dry-run      every write, before any
      contend prove checkout --url http://127.0.0.1:8080/cart --against backup.service --for 4m
      contend prove shop.service --against rsync --log shop.log --pattern 'took ([0-9.]+) ms' --unit ms
      contend prove 4711 --against rsync --against updatedb --by nice
    """
    from contend.cli import dry_run as ahead
    from contend.engine import run as orchestrator
    from contend.engine.checking import checking
    from contend.studies.prove.holding import lines, switches

    options["command"] = own_command.given(None) or None
    _refuse_unheard(options["by"], against)
    if not against:
        against = _watched(live_victims.watched(victim, options), watched)
    scenario = scenario_of(victim, against, **options)
    repeated = commandline(victim, against, policy_file, **options)
    with checking(scenario.measure.budget, began_ns()):
        plan = switches(scenario)
        if dry_run and as_json:
            return _as_document(plan)
        if dry_run:
            return ahead.show(scenario, (), as_json)
        writes = list(lines(plan))
    if not consent:
        allow(scenario, policy_file, writes)
    scenario = scenario.model_copy(update={"consent": True})
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

    from contend.contention.groups import names_of
    from contend.scenario.yaml_file import read_yaml
    from contend.studies.scenarios import parse

    what = victim_workload(victim, options)
    verb = "do" if against[1:] else "does"
    called = f"{next(iter(names_of(int(victim))), '')} ({victim})" if victim.isdecimal() else victim
    document = {
        "study": "prove",
        "title": f"What {verb} {', '.join(against)} cost {called or options.get('url') or options['metrics']}?",
        **what,
        "called": called,
        "suspects": list(against),
        "by": options["by"],
        "measure": {"budget": options["length"], "trial": options["trial"], "most": MOST_BLOCKS, "pilot": 1},
    }
    document |= {
        key: options[key] for key in ("cpus", "io", "apart", "figure") if options.get(key) is not None
    }
    if options.get("allow_freeze"):
        document["allow_freeze"] = True
    if options.get("guard") is not None:
        document["guard"] = {"probe": options["guard"], "run_delay": None, "stall": None, "ramp": []}
    if options["seed"] is not None:
        document["measure"]["seed"] = options["seed"]
    return cast("Prove", parse(read_yaml(yaml.safe_dump(document), "contend prove", ScenarioError)))


_OF = {"cpus": "quota", "io": "io-limit", "apart": "cpuset", "allow_freeze": "freeze"}
"""Options of one way to hold a suspect back."""


def _refuse_unheard(by: str, against: tuple[str, ...]) -> None:
    """Raises BadInput for options that say how, of another way than is taken: it would be held back otherwise than meant."""
    for name, way in _OF.items():
        if by != way and typed(name):
            option = f"--{name.replace('_', '-')}"
            raise BadInput(f"{option} goes with --by {way}", hint=f"add --by {way}, or leave {option} out")
    if against and typed("watched"):
        raise BadInput("--watch finds suspects, and --against names them", hint="give one of them")


def commandline(victim: str, against: tuple[str, ...], policy: Path | None = None, **options: Any) -> str:
    """The command that repeats the experiment."""
    defaults = {"length": "4m", "by": "auto", "trial": "2s", "allow_freeze": False}
    own = options.pop("command", None)
    words = ["contend", "prove", *([victim] if victim else [])]
    for name in against:
        words += ["--against", name]
    for key, value in options.items():
        if value is None or value == defaults.get(key):
            continue
        words.append(f"--{ {'length': 'for', 'allow_freeze': 'allow-freeze'}.get(key, key) }")
        if value is not True:
            words.append(f"{value:g}" if isinstance(value, float) else str(value))
    if policy is not None:
        words += ["--policy", str(policy)]
    return shlex.join(words) + ("" if own is None else f" -- {own}")


def _watched(who: Tenant, length: str) -> tuple[str, ...]:
    """Those who had what the victim waited for, by a watch. Raises BadInput where nobody did."""
    from contend.contention.groups import choose
    from contend.contention.suspects import suspects
    from contend.contention.watch import Watch
    from contend.interrupts import Interrupts
    from contend.units import NS_PER_S, parse_duration_ns

    length_ns = parse_duration_ns(length)
    if length_ns < NS_PER_S:
        raise BadInput(f"--watch {length} is too short", hint="--watch 10s")
    with Interrupts() as interrupts:
        watch = Watch(choose("auto"), NS_PER_S)
        print(f"who is it that {who.name} waits for? A watch of {length}", file=sys.stderr)
        try:
            for _ in watch.periods(interrupts, length_ns / NS_PER_S):
                pass
        finally:
            watch.stop()
    seen = watch.watched
    if seen.note:
        print(f"note: {printable(seen.note)}", file=sys.stderr)
    chosen, left = suspects(seen.blame, who, MOST_WATCHED)
    for why in left:
        print(f"  {printable(why)}", file=sys.stderr)
    if not chosen:
        raise BadInput(
            f"in {length} {who.name} waited for nobody who could be held back",
            hint="a longer --watch, at a time when it is slow; or --against SUSPECT",
        )
    for one in chosen:
        print(f"  {printable(one.name)} had {100 * one.share:.0f} % of what it waited for", file=sys.stderr)
    return tuple(one.name for one in chosen)


def _as_document(plan: dict[str, list[Switch]]) -> int:
    from contend.studies.prove.holding import event

    writes = [event(suspect, switch) for suspect, each in plan.items() for switch in each]
    print_answer(f"would make {len(writes)} writes and take them back; nothing was made", {"writes": writes})
    return 0


def allow(scenario: Prove, policy_file: Path | None, writes: list[str]) -> None:
    """Raises BadInput where no policy allows it, and nobody can be asked, or says no."""
    from contend.studies.prove import policy

    why = policy.allowed(scenario, policy_file or policy.FILE)
    if not why:
        return
    if policy_file is not None:
        raise BadInput(f"{policy_file} does not allow that: {why}", hint="--dry-run shows every write")
    if not agreed(writes, "For moments at a time, and put back after each."):
        raise BadInput(
            f"others' limits are changed only with consent, and {why}",
            hint="--dry-run shows every write; then --consent",
        )


def agreed(lines: Iterable[str], what: str) -> bool:
    """Show lines on a terminal and have somebody agree; False where there is no terminal. Raises BadInput for a no."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for line in lines:
        print(f"  {printable(line)}", file=sys.stderr)
    print(f"{what} Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise BadInput("nothing was changed", hint="--dry-run shows what would be")
    return True
