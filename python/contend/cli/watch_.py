"""`contend watch`: who waits for whom, now, without any load of ours."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contend.cli.common import no_stream, print_answer, shown, typed
from contend.errors import BadInput, HostFailed
from contend.text.safe import plain, safe_console

if TYPE_CHECKING:
    from contend.contention.blame import Period
    from contend.contention.watch import Watch, Watched
    from contend.report.watch_document import WatchReport
    from contend.report.watch_terminal import Shower
    from contend.store.directory import RunDirectory

SHORTEST_NS = 50_000_000


@click.command("watch", short_help="Who waits for whom, now, without any load of ours.")
@click.argument("scope", required=False, default="")
@click.option(
    "--by",
    type=click.Choice(["auto", "cgroup", "process", "vm"]),
    default="auto",
    show_default=True,
    help="What tasks are put together by. auto: cgroups where processes are in several, else processes."
    " Processes of the root cgroup stand for themselves."
    " vm: processes, and only QEMU's machines are victims, by their names.",
)
@click.option(
    "-p",
    "--pid",
    type=click.IntRange(min=1),
    metavar="PID",
    help="Show what this process waits for, and no other: SCOPE PID --by process.",
)
@click.option("-i", "--interval", default="1s", metavar="TIME", show_default=True, help="How often to look.")
@click.option("--for", "length", metavar="TIME", help="End after this time, like 30s; else at Ctrl-C.")
@click.option(
    "--alert",
    metavar="PERCENT",
    help="Exit 4 when a victim's share lost lies above this beyond its interval, 5 when that cannot be told.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document on stdout at the end; lines go to stderr."
)
@click.option(
    "--openmetrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rewrite this file each interval, whole: for node_exporter's textfile collector (name it *.prom).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="A new directory for the recording: every row for contend sql, and at the end watch.json and report.html.",
)
@click.option(
    "--no-bpf", is_flag=True, help="Use the weaker watch that needs no BPF: a correlation, no blame."
)
def command(
    scope: str,
    by: str,
    pid: int | None,
    interval: str,
    length: str | None,
    alert: str | None,
    as_json: bool,
    openmetrics: Path | None,
    output: Path | None,
    no_bpf: bool,
) -> int:
    """Watch who waits for the CPU or a disk, and for whom. Needs root, or CAP_BPF and CAP_PERFMON.

    While a task is runnable and does not run, whoever has its CPU is charged; while a disk request waits, those whose
    requests are ahead of it. A victim's charges sum to its waits, and for CPU these are the kernel's own run delay.
    Memory bandwidth is not watched: nobody can be named for it without a counter.

    SCOPE names the victims to show and to alert for: a cgroup (and those below it), a glob, a pid, a name.

    \b
    The share a victim lost to neighbours in an interval is
      waited for others / max(interval, time its tasks ran or waited)
    Others: not itself, not an idle CPU, not its own limits. The mean over the intervals comes with its
    95 % bounds; --alert holds CPU and disk of each victim against the threshold, each for itself.

    \b
    Examples:
      contend watch                                       every victim, until Ctrl-C
      contend watch nginx --for 30s --alert 20%           exit 4 if neighbours cost nginx more than that
      contend watch '/machine.slice' --by cgroup -o seen  a page about the virtual machines
    """
    from contend.contention.groups import choose
    from contend.contention.watch import Watch
    from contend.contention.watch_record import WatchRecord
    from contend.environment import fingerprint
    from contend.interrupts import Interrupts
    from contend.report.watch_metrics import Exporter, write
    from contend.store.directory import RunDirectory
    from contend.units import parse_duration_ns, parse_fraction

    if pid is not None:
        if scope:
            raise BadInput(
                f"--pid {pid} and the scope '{scope}' both name the victims", hint="give one of them"
            )
        if by != "process" and typed("by"):
            raise BadInput(f"--pid {pid} is a process, and --by {by} looks at others", hint="leave --by out")
        if not Path(f"/proc/{pid}").exists():
            raise BadInput(
                f"no process has the number {pid}", hint="pgrep NAME prints the numbers of those called NAME"
            )
        scope, by = str(pid), "process"
    interval_ns = parse_duration_ns(interval)
    if interval_ns < SHORTEST_NS:
        raise BadInput(f"an interval of {interval} is too short", hint="50ms or more; 1s shows most")
    length_ns = None if length is None else parse_duration_ns(length)
    if length_ns is not None and length_ns < interval_ns:
        raise BadInput(f"--for {length} is shorter than one interval", hint=f"--for {interval} or more")
    threshold = None if alert is None else parse_fraction(alert)
    if threshold is not None and not 0 < threshold < 1:
        raise BadInput(f"--alert {alert} is not between 0 and 100 %", hint="--alert 20%")

    about: dict[str, Any] = {
        "line": shlex.join(["contend", *sys.argv[1:]]),
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "scope": scope,
        "asked_by": by,
        "threshold": threshold,
    }
    environment = fingerprint()
    no_stream(output)
    run = None if output is None else RunDirectory.at(output)
    with Interrupts() as interrupts:
        record = None
        if run is not None:
            run.write_json("environment.json", environment)
            record = WatchRecord(run, about, lambda text: print(text, file=sys.stderr))
        try:
            watch = Watch(choose(by), interval_ns, bpf=not no_bpf, record=record)  # type: ignore[arg-type]
        except BaseException:
            if run is not None and not run.is_watch:  # it never began
                run.remove()
            raise
        from contend.contention.watch_record import scoped

        keep = scoped(about, watch.watched)
        exporter = Exporter(keep)

        def seen(period: Period) -> None:
            shower.show(watch.watched, period)
            if openmetrics is not None:
                write(openmetrics, exporter.render(watch.watched, period))

        with _shower(as_json, keep) as shower:
            _observe(watch, interrupts, length_ns, seen)
        interrupts.hold()
        watch.stop()
        report = _report(watch.watched, about, environment)
        if openmetrics is not None:
            write(openmetrics, exporter.render(watch.watched, None))
        code = 0 if report.alert is None else report.alert.exit_code
        _finish(report, run, as_json, code)
    return code


def report_again(run: RunDirectory, as_json: bool) -> None:
    """Write watch.json, report.html and the summary of a recorded watch, from its rows."""
    from contend.contention.watch_record import read_watched

    record = run.watch()
    report = _report(read_watched(run), record, run.environment())
    _finish(report, run, as_json)


def _report(watched: Watched, record: Mapping[str, Any], environment: Mapping[str, Any]) -> WatchReport:
    from contend.contention.alert import judge
    from contend.contention.findings import findings
    from contend.contention.watch_record import scoped
    from contend.report.watch_document import WatchReport

    keep, threshold = scoped(record, watched), record.get("threshold")
    return WatchReport(
        watched=watched,
        findings=findings(watched, keep),
        alert=None if threshold is None else judge(watched, threshold, keep),
        scope=str(record.get("scope", "")),
        command=str(record.get("line", "")),
        began=str(record.get("began", "")),
        environment=environment,
        keep=keep,
    )


def _observe(watch: Watch, interrupts: object, length_ns: int | None, seen: Callable[[Period], None]) -> None:
    """Until the time is over, or Ctrl-C, which is the ordinary end."""
    from contend.interrupts import Interrupts
    from contend.units import NS_PER_S

    assert isinstance(interrupts, Interrupts)
    with contextlib.suppress(KeyboardInterrupt):
        for period in watch.periods(interrupts, None if length_ns is None else length_ns / NS_PER_S):
            with interrupts.postponed():
                seen(period)


def _shower(as_json: bool, keep: Callable[[str], bool]) -> Shower:
    from contend.report.watch_terminal import Lines, LiveTable

    stream = sys.stderr if as_json else sys.stdout
    if stream.isatty():
        return LiveTable(safe_console(file=plain(stream)), keep)
    return Lines(lambda line: print(line, file=stream, flush=True), keep)


def _finish(report: WatchReport, run: RunDirectory | None, as_json: bool, code: int = 0) -> None:
    """The page, and the answer even where that cannot be written."""
    failed = None
    try:
        if run is not None:
            _write_page(report, run)
    except HostFailed as error:
        failed = error
    _tell(report, run, as_json, code)
    if failed is not None:
        raise failed


def _tell(report: WatchReport, run: RunDirectory | None, as_json: bool, code: int) -> None:
    """On stdout: the document, or the summary for people."""
    from contend.report.watch_document import document
    from contend.report.watch_words import answer

    if as_json:
        print_answer(answer(report), document(report), code=code)
        return
    from contend.report.watch_terminal import summary

    summary(report, safe_console())
    if run is not None:
        print(f"{shown(run.path)}   report: {shown(run.path / 'report.html')}")


def _write_page(report: WatchReport, run: RunDirectory) -> None:
    from contend.report.watch_document import document
    from contend.report.watch_html import render_watch

    run.write_json("watch.json", document(report).to_json())
    run.write_text("report.html", render_watch(report))
