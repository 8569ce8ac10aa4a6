"""One trial: one run of one cell, with everything that explains it recorded beside it.

    neighbours start ─► are proven to burn ─► server starts ─► [ victim runs ] ─► neighbours proven again ─► all stop
                                             snapshot before ─┘              └─ snapshot after

The window in brackets is what the row's evidence is about. A trial that fails raises TrialFailed after
everything it started has been stopped; surroundings that were not clean are flagged, never dropped.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from contend.clock import Clock
from contend.engine.neighbours import Burning, ignite, prove, serve
from contend.engine.output import last_words, shown
from contend.engine.ramp import ramp
from contend.engine.seating import Seat, Seating, add_exits, clear
from contend.engine.trial_traces import TrialTraces
from contend.engine.window import Window
from contend.errors import TrialFailed
from contend.files import PRIVATE, has_room, made_beside, room_hint
from contend.platforms import standing
from contend.platforms.base import Command, Exit, Host, Releases
from contend.probes.contamination import flags
from contend.probes.evidence import FOLLOWED, followed
from contend.probes.observed import Observed, put
from contend.probes.peak import PeakMemory
from contend.probes.snapshot import device_of
from contend.store.directory import Row
from contend.studies.base import Treating
from contend.studies.cell import Cell
from contend.studies.guard import Guard
from contend.studies.plan import Trial
from contend.workloads.instance import Commands
from contend.workloads.metrics import Reading, read_metrics
from contend.workloads.variables import expand_argv, expand_env, hide

BEFORE_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 60.0  # also after Ctrl-C, when nobody wants to wait for long
DIRTY_LIMIT_BYTES = 32 * 2**20
QUOTAS = 8  # of a trial are kept, those that held longest


def _nothing_done(_: Trial, __: Cell, ___: Row) -> AbstractContextManager[None]:
    return nullcontext()


class TrialRunner:
    """Runs trials of a run's cells, one after the other."""

    def __init__(
        self,
        seating: Seating,
        directory: Path,
        clock: Clock,
        *,
        timeout_s: float | None,
        tool_cpus: tuple[int, ...] | None,
        washout_ns: int = 0,
        keep_output: bool = False,
        traces: TrialTraces,
        devices: Mapping[str, str | None] | None = None,
        treating: Treating | None = None,
    ) -> None:
        """devices: by group of participants, the disk that their data is on, where that is not the run's directory."""
        self._treating = treating or _nothing_done
        self._devices = devices or {}
        self._seating, self._directory, self._clock = seating, directory, clock
        self._timeout_s, self._keep, self._traces = timeout_s, keep_output, traces
        self._tool_cpus, self._washout_ns = tool_cpus, washout_ns
        self._device = device_of(directory)

    def ramp(self, cells: Iterable[Cell], guard: Guard, seed: int) -> None:
        """Start neighbours for the first time, at a part of their strength. Raises TrialFailed."""
        ramp(self._seating, cells, guard, self._directory, seed)

    def run(self, trial: Trial, cell: Cell) -> Row:
        """Run a trial and return its row; status "failed" when it gave no result. KeyboardInterrupt passes through."""
        out = self._directory / "trials" / f"{trial.index:06d}"
        out.mkdir(parents=True, exist_ok=True)
        began_ns, began_cpu_ns = self._clock.monotonic_ns(), time.process_time_ns()
        row: Row = {
            "trial": trial.index,
            "block": trial.block,
            "phase": trial.phase,
            "cell": cell.id,
            "factors": dict(cell.factors),
            "clock": "CLOCK_MONOTONIC",
            "utc": self._clock.utc(),
            "status": "ok",
            "error": "",
            "hint": "",
            "metrics": [],
            "evidence": [],
            "flags": [],
            "neighbours": [],
            "honoured": {},
        }
        window_ns = 0
        self._traces.begin(trial)
        try:
            window_ns = self._measure(trial, cell, out, row)
        except TrialFailed as error:
            hint = error.hint if has_room(out) else room_hint(out, "then --resume")
            row |= {"status": "failed", "error": error.message, "hint": hint}
            row.setdefault("started_ns", began_ns)
            row.setdefault("ended_ns", self._clock.monotonic_ns())
        washout_ns = self._washout() if cell.neighbours else 0
        row |= self._traces.end(trial)
        if row["status"] == "ok":
            self._save(trial, cell, out)
            if not self._keep:
                clear(out)
        row["overhead"] = {
            "wall_ns": self._clock.monotonic_ns() - began_ns - window_ns - washout_ns,
            "cpu_ns": time.process_time_ns() - began_cpu_ns,
            "washout_ns": washout_ns,
        }
        return row

    def _save(self, trial: Trial, cell: Cell, out: Path) -> None:
        """Keep the files that the workload names: RUN/outputs/TRIAL. The pilot is thrown away."""
        wanted = cell.victim.instance.workload.keep if trial.phase == "counted" else ()
        for name in wanted:
            if (out / name).is_file():
                folder = self._directory.parent / "outputs" / out.name
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with made_beside(folder / name, mode=PRIVATE) as half:
                    shutil.copyfile(out / name, half)

    def _measure(self, trial: Trial, cell: Cell, out: Path, row: Row) -> int:
        victim, neighbours = self._seating.seats(cell)
        burning: list[Burning] = []
        try:
            for number, seat in enumerate(neighbours):
                burning.append(ignite(seat, out, number, trial.seed))
            for neighbour in burning:
                prove(neighbour)
            with self._treating(trial, cell, row):
                window_ns = self._run_victim(trial, victim, burning, out, row)
        except BaseException as error:
            try:
                self._stop(victim, out, trial.seed)
            except TrialFailed as later:
                error.add_note(f"nor {later.message}")
            raise
        else:
            self._stop(victim, out, trial.seed)
        finally:
            # Reverse order; each stop is idempotent, and a failing one must not keep the others alive.
            for neighbour in reversed(burning):
                neighbour.stop()
        row["neighbours"] = [n.to_json() for n in burning]
        stopped = [n for n in burning if not n.to_json()["burning"]]
        if stopped:
            labels, first = ", ".join(n.seat.participant.label for n in stopped), stopped[0]
            used = f"{first.during:.3g} of {first.least:.3g} ({first.resource})"
            raise TrialFailed(
                f"neighbour {labels} {'ended' if first.ended else f'burned {used} only'} while the victim ran",
                hint=f"it said: {last_words(first.errors)}",
            )
        return window_ns

    def _run_victim(self, trial: Trial, seat: Seat, burning: list[Burning], out: Path, row: Row) -> int:
        workload = seat.participant.instance.workload
        commands = seat.commands(out, trial.seed)
        if commands.before is not None:
            self._before(seat, commands, out)
        env = {**self._traces.environment(trial, workload), **_layout(seat, trial, row)}
        server = serve(seat, commands.serve, out, env) if commands.serve is not None else None
        try:
            seats = [n.seat for n in burning]
            others = [s.host for s in seats] + [s.load for s in (seat, *seats) if s.load is not None]
            # A broker, say, that another party has brought up for all of them: no stranger.
            others += self._seating.left_running()
            window = Window(
                seat.host,
                [host for number, host in enumerate(others) if host not in (seat.host, *others[:number])],
                seat.cpu_list,
                device=self._devices.get(seat.participant.group, self._device),
                tool_cpus=self._tool_cpus,
                server_pid=server.pid if server is not None else None,
            )
            for neighbour in burning:
                neighbour.begin()
            row["started_ns"] = time.monotonic_ns()
            exits = self._steps(seat, commands, out, window, env, row)
            row["ended_ns"] = time.monotonic_ns()
            for neighbour in burning:
                neighbour.count()
            row["honoured"] = seat.host.honoured()
            step = workload.headline_step
            mine = exits if step is None else [exits[step]]
            evidence = window.evidence(None if server is not None else add_exits(mine))
            row |= self._group_entries(window)
            measured_s = seat.participant.instance.measured_s(seat.values)
            if measured_s is not None:
                put(evidence, Observed.MEASURED, measured_s)
            if workload.elsewhere and (out / FOLLOWED).exists():
                evidence = followed(out / FOLLOWED, evidence)
            started_ns = sum(exit_.startup_ns for exit_ in exits)
            if (
                started_ns and server is None
            ):  # what the platform took before the commands ran: no part of their time
                put(evidence, Observed.STARTUP, started_ns / 1e9)
                if (
                    Observed.FOREIGN_CPU in evidence
                ):  # an engine's client and helpers, about one CPU's worth while it starts
                    foreign_s = evidence[Observed.FOREIGN_CPU][0] - started_ns / 1e9
                    put(evidence, Observed.FOREIGN_CPU, max(0.0, foreign_s))
        finally:
            if server is not None:
                server.stop(workload.stop.signal, workload.stop.grace / 1e9)
        served = (
            {"server_cpu": evidence[Observed.CPU][0]}
            if server is not None and Observed.CPU in evidence
            else {}
        )
        readings = self._read(seat, out, exits, served)
        row["metrics"] = [r.to_json() for r in readings]
        row["evidence"] = [{"name": str(k), "value": v, "unit": u} for k, (v, u) in evidence.items()]
        if workload.elsewhere:
            evidence.pop(Observed.FOREIGN_CPU, None)
        by_affinity = seat.host.visible and row["honoured"].get("cpus_by") == "affinity"
        row["flags"] = list(
            flags(
                evidence, len(seat.cpu_list), by_affinity=by_affinity, changed=bool(row.get("limits_changed"))
            )
        )
        return int(row["ended_ns"]) - int(row["started_ns"])

    def _group_entries(self, window: Window) -> Row:
        """The row's entries on quotas that held the victim back, and on limits that others changed since they were set."""
        entries: Row = {}
        throttling = window.throttling
        if throttling is not None and throttling.quotas:
            entries["quotas"] = [quota.to_json() for quota in throttling.quotas[:QUOTAS]]
        if throttling is not None and throttling.unknown:
            entries["quotas_unknown"] = throttling.unknown
        changed = {change.file: change for change in standing.changes(self._seating.limits, window.limits)}
        changed |= {change.file: change for change in window.changed if change.file not in changed}
        if changed:
            entries["limits_changed"] = [change.to_json() for change in changed.values()]
        return entries

    def _before(self, seat: Seat, commands: Commands, out: Path) -> None:
        assert commands.before is not None
        self._beside(seat, commands, "before", commands.before, out, BEFORE_TIMEOUT_S)

    def _stop(self, seat: Seat, out: Path, seed: int) -> None:
        """End what the preparation or the commands of a trial have left running, where the workload says how."""
        commands = seat.commands(out, seed)
        if commands.stop is not None:
            self._beside(seat, commands, "stop", commands.stop, out, STOP_TIMEOUT_S)

    @staticmethod
    def _beside(
        seat: Seat, commands: Commands, what: str, argv: tuple[str, ...], out: Path, timeout_s: float
    ) -> None:
        """Run what is no part of a trial, and whose services are the user's: contend ends none of them."""
        env = seat.participant.instance.workload.env
        files = out / f"{what}.out", out / f"{what}.err"
        command = Command(
            expand_argv(argv), Path(commands.directory), *files, expand_env(env), left="outside"
        )
        exit_ = seat.host.run(command).wait(timeout_s)
        if exit_.code != 0 or exit_.timed_out:
            doing = "preparing" if what == "before" else "stopping what was left by"
            ended = (
                f"did not end within {timeout_s:g} s"
                if exit_.timed_out
                else f"failed with exit status {exit_.code}"
            )
            raise TrialFailed(
                f"{doing} a trial of {seat.participant.label} {ended}: {shown(argv)}",
                hint=f"it said: {hide(last_words(command.stderr, command.stdout), argv, env.values())}",
            )

    def _steps(
        self, seat: Seat, commands: Commands, out: Path, window: Window, env: Mapping[str, str], row: Row
    ) -> list[Exit]:
        host = seat.load if seat.load is not None else seat.host
        workload = seat.participant.instance.workload
        timeout = self._longest_s(seat)
        exits: list[Exit] = []
        step = workload.headline_step
        first, last = (0, len(commands.run) - 1) if step is None else (step, step)
        for number, argv in enumerate(commands.run):
            if number == first:
                window.open()
            directory = Path(commands.directory)
            command = Command(
                expand_argv(argv),
                directory,
                out / f"stdout-{number}",
                out / f"stderr-{number}",
                expand_env({**workload.env, **env}),
                left="released" if workload.users_own else "ended",
            )
            try:
                exit_ = self._step(seat, host, command, window, timeout)
            finally:
                if number == last:
                    window.close()
            exits.append(exit_)
            if not exit_.timed_out and workload.users_own and isinstance(host, Releases):
                # After the window: what it left has no part in its figures, and is foreign to the next trial's.
                row["left_running"] = [
                    *row.get("left_running", ()),
                    *({"pid": s.pid, "name": s.name} for s in host.release()),
                ]
            if exit_.timed_out:
                raise TrialFailed(
                    f"{seat.participant.label} did not end within {timeout:g} s",
                    hint="a longer trial needs a longer `trial:` in its file"
                    if self._timeout_s is None and workload.timeout is None
                    else "allow it more time: --timeout, or `timeout:` in the scenario",
                )
            if exit_.code != 0:
                ended = f"exit status {exit_.code}" if exit_.code > 0 else f"signal {-exit_.code}"
                raise TrialFailed(
                    f"{seat.participant.label} failed with {ended}: {shown(argv)}",
                    hint=f"it said: {hide(last_words(command.stderr, command.stdout), argv, workload.env.values())}",
                )
        return exits

    def _longest_s(self, seat: Seat) -> float:
        """The longest that a step may take: by the study, or the workload, or by how long it is to run."""
        if self._timeout_s is not None:
            return self._timeout_s
        timeout = seat.participant.instance.workload.timeout
        return 30 + 20 * float(str(seat.values["seconds"])) if timeout is None else timeout / 1e9

    def _step(self, seat: Seat, host: Host, command: Command, window: Window, timeout_s: float) -> Exit:
        """Run one command to its end, or end it."""
        workload, watch = seat.participant.instance.workload, window.watch
        process = host.run(command)
        peak: PeakMemory | None = None
        try:
            if seat.load is None and watch is not None and host.visible:
                watch.follow(process.pid)
                window.follow(process.pid)
                process.on_exit = watch.at_exit
            if host.visible and any(m.builtin == "max_rss" for m in workload.metrics.values()):
                peak = PeakMemory(host.pids if host.cgroup() else lambda: (process.pid,))
            exit_ = process.wait(timeout_s)
        except BaseException:
            process.stop(workload.stop.signal, workload.stop.grace / 1e9)
            raise
        finally:
            if peak is not None:
                peak.stop()
        return exit_ if peak is None else replace(exit_, max_rss_bytes=peak.of(exit_))

    def _read(self, seat: Seat, out: Path, exits: list[Exit], served: Mapping[str, float]) -> list[Reading]:
        workload = seat.participant.instance.workload
        stdout = [out / f"stdout-{n}" for n in range(len(exits))]
        stderr = [out / f"stderr-{n}" for n in range(len(exits))]
        total = add_exits(exits)
        builtins = {
            "wall": total.wall_ns / 1e9,
            "cpu": total.cpu_ns / 1e9,
            "user": total.user_ns / 1e9,
            "system": total.system_ns / 1e9,
            "max_rss": float(total.max_rss_bytes),
            **served,
        }
        return read_metrics(workload, out, stdout, stderr, builtins)

    def _washout(self) -> int:
        """Wait until what a neighbour leaves behind is gone: dirty pages, which later writes would pay for, and for
        what cannot be seen here (heat, burst credit) as long as the scenario says. Returns how long that took, in ns.
        """
        start = self._clock.monotonic_ns()
        if dirty_bytes() > DIRTY_LIMIT_BYTES:
            os.sync()
        self._clock.sleep((self._washout_ns - (self._clock.monotonic_ns() - start)) / 1e9)
        return self._clock.monotonic_ns() - start


def dirty_bytes() -> int:
    """Page cache not yet on the disk, host-wide: Dirty and Writeback of /proc/meminfo."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Dirty:", "Writeback:")))


_LAYOUT_BYTES = 528  # 33 x 16: steps of a stack's alignment, spread over a page and over lines of a cache


def _layout(seat: Seat, trial: Trial, row: Row) -> Mapping[str, str]:
    """Variables that make the environment as large as the trial's layout wants it; the row has its number."""
    instance = seat.participant.instance
    number = instance.layout(trial.seed)
    if number is None:
        return {}
    row |= {"layout": number, "layouts": instance.workload.layouts}
    return {"CONTEND_LAYOUT": "." * (1 + _LAYOUT_BYTES * number)}
