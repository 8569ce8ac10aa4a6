"""A recording in the formats of others: tables as CSV or Parquet, its totals as OpenMetrics, stacks folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from contend.errors import BadInput, HostFailed
from contend.files import made_beside, write
from contend.report.exposition import Family, exposition
from contend.sample.stacks import folded, read_stacks
from contend.store.directory import RunDirectory
from contend.store.series import open_series, read_series, read_sound
from contend.text.masking import mask, mask_texts
from contend.units import NS_PER_S

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_PRESSURES = {"cpu": "psi_cpu_some_ns", "io": "psi_io_some_ns", "memory": "psi_memory_some_ns"}


def export_sample(run: RunDirectory, form: str, output: Path | None) -> Path:
    """Export a recording; returns the path. Raises BadInput for a format that recordings do not have, HostFailed for a
    full disk."""
    if form in ("csv", "parquet"):
        return _tables(run, form, output or run.path / "export")
    if run.is_watch:
        raise BadInput(
            f"a recording of contend watch has no {form} form",
            hint="csv or parquet; contend watch --openmetrics",
        )
    if form == "folded":
        lines = list(folded(read_stacks(run, everyone=True).stacks))
        if not lines:
            raise BadInput(
                f"'{run.path}' holds no stacks",
                hint="record with --sched process --off-cpu-stacks; they need BPF",
            )
        return _text("\n".join(lines) + "\n", output or run.path / "export.folded")
    if form != "openmetrics":
        raise BadInput(
            f"a recording has no {form} form", hint="csv, parquet, openmetrics, folded, perfetto or chrome"
        )
    text = read_series(run.series, lambda: exposition(_families(run)))
    return _text(text, output or run.path / "export.txt")


def _text(text: str, target: Path) -> Path:
    """Write it whole, masked; where."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(target, mask(text).encode("utf-8"))
    except OSError as error:
        raise HostFailed(
            f"cannot write {target}: {error.strerror}", hint="choose another place with -o FILE"
        ) from error
    return target


def _tables(run: RunDirectory, form: str, directory: Path) -> Path:
    """A file a table, its rows in the order of time."""
    options = "FORMAT csv, HEADER" if form == "csv" else "FORMAT parquet, COMPRESSION zstd"

    def copy() -> None:
        with duckdb.connect() as connection:
            for table in open_series(connection, run.series):
                with made_beside(directory / f"{table}.{form}") as part:
                    target = str(part).replace("'", "''")
                    connection.execute(
                        f"COPY (SELECT *{_masked(connection, table)} FROM {table} ORDER BY t_ns) TO '{target}' ({options})"
                    )

    try:
        directory.mkdir(parents=True, exist_ok=True)
        read_sound(run.series, copy)
    except (OSError, duckdb.Error) as error:
        reason = str(error).splitlines()[0]
        raise HostFailed(
            f"cannot write to {directory}: {reason}", hint="choose another place with -o DIR"
        ) from error
    return directory


def _masked(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    """The clause by which `SELECT *` masks names of processes and of groups; nothing where nothing is to be masked."""
    changed = []
    for name, kind, *_ in connection.execute(f"DESCRIBE {table}").fetchall():
        if kind != "VARCHAR":
            continue
        rows = connection.execute(
            f'SELECT DISTINCT "{name}" FROM {table} WHERE "{name}" IS NOT NULL'
        ).fetchall()
        texts = [str(row[0]) for row in rows]
        if masked := mask_texts(texts):
            cases = " ".join(f"WHEN {_literal(texts[at])} THEN {_literal(shown)}" for at, shown in masked)
            changed.append(f'CASE "{name}" {cases} ELSE "{name}" END AS "{name}"')
    return f" REPLACE ({', '.join(changed)})" if changed else ""


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _families(run: RunDirectory) -> Iterator[Family]:
    """Families of what was counted from the first sample to the last; gauges as they were at the last."""
    recording = run.sample()
    began = datetime.fromisoformat(str(recording["began_utc"])).timestamp()
    command = " ".join(recording.get("command", ()))
    yield Family(
        "contend_recording", "info", "", "What was recorded.", [({"run": run.id, "command": command}, 1)]
    )
    with duckdb.connect() as connection:
        reader = _Totals(connection, open_series(connection, run.series), began)
        yield from reader.host()
        yield from reader.devices()
        yield from reader.programs()


class _Totals:
    def __init__(
        self, connection: duckdb.DuckDBPyConnection, columns: Mapping[str, set[str]], began: float
    ) -> None:
        self._db, self._columns, self._began = connection, columns, began

    def _counter(
        self, name: str, unit: str, about: str, samples: list[tuple[dict[str, str], float]]
    ) -> Iterator[Family]:
        if samples:
            yield Family(f"contend_{name}", "counter", unit, about, samples, created=self._began)

    def _grown(self, table: str, column: str, key: str = "") -> list[tuple[Any, float]]:
        """Growth of a cumulative column from the first to the last sample; a counter that was reset has none."""
        if column not in self._columns.get(table, ()):
            return []
        group = f'"{key}"' if key else "''"
        rows = self._db.execute(
            f"""SELECT {group}, arg_max({column}, t_ns) - arg_min({column}, t_ns) AS grown FROM {table}
                GROUP BY 1 HAVING grown >= 0 ORDER BY 1"""
        ).fetchall()
        return [(row[0], float(row[1])) for row in rows]

    def host(self) -> Iterator[Family]:
        cpu = [
            ({"cpu": str(which), "state": state}, grown / NS_PER_S)
            for state in _STATES
            for which, grown in self._grown("cpu", f"{state}_ns", "cpu")
        ]
        yield from self._counter("cpu_seconds", "seconds", "Time of each CPU by what it did.", cpu)
        for column in ("context_switches", "interrupts", "forks"):
            grown: list[tuple[dict[str, str], float]] = [
                ({}, value) for _, value in self._grown("host", column)
            ]
            yield from self._counter(
                column, "", f"{column.replace('_', ' ').capitalize()} of the host.", grown
            )
        pressure = [
            ({"resource": resource}, value / NS_PER_S)
            for resource, column in _PRESSURES.items()
            for _, value in self._grown("host", column)
        ]
        about = "Time in which at least one task waited for it."
        yield from self._counter("pressure_seconds", "seconds", about, pressure)
        for column, name, about in (
            ("mem_available_bytes", "memory_available_bytes", "Memory available at the last sample."),
            ("mem_total_bytes", "memory_total_bytes", "Memory of the host."),
        ):
            if column in self._columns.get("host", ()):
                (row,) = self._db.execute(f"SELECT arg_max({column}, t_ns) FROM host").fetchall()
                yield Family(f"contend_{name}", "gauge", "bytes", about, [({}, float(row[0]))])

    def devices(self) -> Iterator[Family]:
        for table, key, column, name, scale, about in (
            ("disk", "device", "reads", "disk_reads", 1.0, "Requests read."),
            ("disk", "device", "writes", "disk_writes", 1.0, "Requests written."),
            ("disk", "device", "read_bytes", "disk_read_bytes", 1.0, "Bytes read."),
            ("disk", "device", "write_bytes", "disk_written_bytes", 1.0, "Bytes written."),
            (
                "disk",
                "device",
                "queue_ns",
                "disk_queue_seconds",
                1 / NS_PER_S,
                "Time of requests in the queue.",
            ),
            ("net", "interface", "rx_bytes", "network_received_bytes", 1.0, "Bytes received."),
            ("net", "interface", "tx_bytes", "network_sent_bytes", 1.0, "Bytes sent."),
        ):
            unit = next((u for u in ("bytes", "seconds") if name.endswith(f"_{u}")), "")
            samples = [({key: str(which)}, value * scale) for which, value in self._grown(table, column, key)]
            yield from self._counter(name, unit, about, samples)

    def programs(self) -> Iterator[Family]:
        """Families by program: processes come and go, and a label for each would never end."""
        if "process_use" not in self._columns:
            return
        rows = self._db.execute(
            """SELECT name, sum(user_ns), sum(system_ns), sum(run_delay_ns), sum(read_bytes), sum(write_bytes)
               FROM process_use GROUP BY name ORDER BY name"""
        ).fetchall()
        cpu = [
            ({"program": str(row[0]), "mode": mode}, float(row[at]) / NS_PER_S)
            for row in rows
            for at, mode in ((1, "user"), (2, "system"))
        ]
        yield from self._counter(
            "program_cpu_seconds", "seconds", "CPU time of all processes of a name.", cpu
        )
        delay = [({"program": str(row[0])}, float(row[3]) / NS_PER_S) for row in rows]
        about = "Time in which they were runnable and waited for a CPU."
        yield from self._counter("program_run_delay_seconds", "seconds", about, delay)
        for at, name, about in (
            (4, "read", "Bytes they had read."),
            (5, "written", "Bytes they had written."),
        ):
            samples = [({"program": str(row[0])}, float(row[at])) for row in rows]
            yield from self._counter(f"program_{name}_bytes", "bytes", about, samples)
