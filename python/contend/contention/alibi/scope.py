"""Whose rows of a recording: those of one party, a command with all that it started or the processes of its cgroups."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from contend.contention.alibi.recording import QUERIES, Recording, read_tables
from contend.store.series import pattern, quoted, series_files

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True)
class Tree:
    """A command and all processes that it started. since_ns: before it began, CLOCK_MONOTONIC; pids are used again.

    Whose parent had ended before it was first seen is not known to be of it.
    """

    pid: int
    since_ns: int
    started: bool = True
    """Started by contend, whose other children are no strangers."""
    # A sample has the moment at which it was begun; on a busy host it may come upon what began a little later.
    EARLY_NS: ClassVar[int] = 1_000_000_000

    @property
    def members(self) -> str:
        return f"""
            WITH RECURSIVE seen AS (
                SELECT pid, start_ns, any_value(ppid) AS ppid, min(t_ns) AS seen_ns,
                       max(t_ns) FILTER (event = 2) AS ended_ns
                FROM process GROUP BY pid, start_ns
            ), root AS (
                SELECT * FROM seen WHERE pid = {self.pid} AND seen_ns >= {self.since_ns - self.EARLY_NS}
                ORDER BY start_ns LIMIT 1
            ), found AS (
                SELECT pid, start_ns, ended_ns FROM root
                UNION
                SELECT child.pid, child.start_ns, child.ended_ns FROM seen AS child JOIN found AS parent
                ON child.ppid = parent.pid AND child.start_ns >= parent.start_ns
                   AND (parent.ended_ns IS NULL OR child.seen_ns <= parent.ended_ns)
            )
            SELECT pid, start_ns FROM found"""

    @property
    def strangers(self) -> str:
        """SQL for other processes in the same cgroups, without contend's own."""
        if not self.started:
            return "TRUE"
        return f"""
            pid NOT IN (SELECT ppid FROM process WHERE pid = {self.pid})
            AND pid NOT IN (
                SELECT pid FROM process WHERE ppid IN (SELECT ppid FROM process WHERE pid = {self.pid})
            )"""


@dataclass(frozen=True, slots=True)
class Groups:
    """Processes in cgroups whose path one regular expression matches and the other does not."""

    pattern: str
    but: str = "a^"

    @property
    def members(self) -> str:
        pattern, but = (text.replace("'", "''") for text in (self.pattern, self.but))
        return f"""
            SELECT DISTINCT pid, start_ns FROM all_use
            WHERE regexp_matches(cgroup, '{pattern}') AND NOT regexp_matches(cgroup, '{but}')"""

    @property
    def strangers(self) -> str:
        return "true"


Scope = Tree | Groups
FEW_GROUPS = 64  # up to so many a scan looks for them row by row: in half the memory of a join
# What a run measures stands in a group of its own (platforms.groups); what loads it, if it is a server, beside it.
VICTIM = Groups(r"/contend\.[^/]+/victim-[^/]+$", r"-load$")


def victims(rows: Iterable[Mapping[str, Any]]) -> Groups:
    """The cgroups of a run's victims, by its trials: VICTIM, and those that a container engine may have chosen.

    rows: of trials.ndjson. A group is known there by its whole path, in the series by the part below where it is mounted.

    >>> row = {"honoured": {"groups": ["/sys/fs/cgroup/unified/libpod_parent/libpod-1"]}}
    >>> [bool(re.search(victims([row]).pattern, path)) for path in ("/libpod_parent/libpod-1", "/libpod_parent/libpod-12")]
    [True, False]
    """
    paths = {group for row in rows for group in row.get("honoured", {}).get("groups", ())}
    ends = {"/".join(("", *steps)) for group in paths for steps in _ends(group.strip("/").split("/"))}
    own = "|".join(re.escape(end) for end in sorted(ends))
    return Groups(f"{VICTIM.pattern}|^({own})(/|$)" if own else VICTIM.pattern, VICTIM.but)


def _ends(steps: list[str]) -> Iterator[list[str]]:
    return (steps[at:] for at in range(len(steps)))


# The host's tables are the host's: who asks for a party has them already.
_OF_GROUP = {
    "busy": QUERIES["busy"],
    "delays": """
        SELECT t_ns, sum(run_delay_ns) AS run_delay_ns, sum(user_ns::DOUBLE + system_ns) AS cpu_ns
        FROM process_use GROUP BY t_ns ORDER BY t_ns
    """,
    # All of them, and its ancestors': a quota above it is one on it.
    "cgroups": "SELECT * FROM cgroup_use WHERE cgroup <> '/'",
    # Of the cgroups it was in: the part of what was done there that was its own, the smaller of CPU time and bytes, and
    # its own CPU time there.
    "own": """
        WITH done AS (
            SELECT cgroup, members.pid IS NOT NULL AS own, sum(user_ns::DOUBLE + system_ns) AS cpu,
                   sum(read_bytes::DOUBLE + write_bytes) AS bytes
            FROM all_use LEFT JOIN members USING (pid, start_ns)
            WHERE members.pid IS NOT NULL OR {strangers}
            GROUP BY ALL
        )
        SELECT cgroup, least(
            coalesce(sum(cpu) FILTER (own) / nullif(sum(cpu), 0), 1),
            coalesce(sum(bytes) FILTER (own) / nullif(sum(bytes), 0), 1)
        ) AS share, coalesce(sum(cpu) FILTER (own), 0) AS cpu_ns
        FROM done GROUP BY cgroup HAVING bool_or(own) ORDER BY cgroup
    """,
}


def read_group(directory: Path, scope: Scope) -> Recording | None:
    """Read the rows of a group of processes from a run's series; None where no process of it was recorded. Raises
    BadInput.

    Tables as in Recording, those of processes and cgroups of the group alone; delays has cpu_ns too; own: by cgroup that
    it was in, the part of what was done there that was its own (share), and its CPU time there (cpu_ns).
    """
    files = series_files(directory)
    if not {"process", "process_use", "cgroup_use"} <= set(files):
        return None

    def prepare(connection: duckdb.DuckDBPyConnection) -> Sequence[str]:
        whole = {"process_use": "all_use", "cgroup_use": "all_groups"}
        for table, paths in files.items():
            connection.read_parquet([pattern(p) for p in paths], union_by_name=True).create_view(
                whole.get(table, table)
            )
        connection.execute(f"CREATE TABLE members AS {scope.members}")
        connection.execute(
            "CREATE VIEW process_use AS SELECT * FROM all_use SEMI JOIN members USING (pid, start_ns)"
        )
        cgroups = connection.execute("SELECT DISTINCT cgroup FROM process_use").fetchall()
        groups = _with_ancestors(g for (g,) in cgroups)
        if len(groups) <= FEW_GROUPS:
            listed = ", ".join(quoted(group) for group in groups)
            connection.execute(
                f"CREATE VIEW cgroup_use AS SELECT * FROM all_groups WHERE list_contains([{listed}], cgroup)"
            )
            return ("cgroups",)
        connection.execute("CREATE TABLE groups (cgroup VARCHAR)")
        connection.executemany("INSERT INTO groups VALUES (?)", [[group] for group in groups])
        connection.execute(
            "CREATE VIEW cgroup_use AS SELECT * FROM all_groups SEMI JOIN groups USING (cgroup)"
        )
        return ()

    queries = _OF_GROUP | {"own": _OF_GROUP["own"].format(strangers=scope.strangers)}
    tables = read_tables(prepare, list(files), str(directory), queries)
    return Recording(tables) if len(tables["delays"]["t_ns"]) else None


def _with_ancestors(cgroups: Iterable[str]) -> list[str]:
    """
    >>> _with_ancestors(["/a/b", "/a"])
    ['/', '/a', '/a/b']
    """
    paths = {"/"}
    for path in cgroups:
        parts = path.strip("/").split("/")
        paths |= {"/" + "/".join(parts[: n + 1]) for n in range(len(parts))}
    return sorted(paths)
