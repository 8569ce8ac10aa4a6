"""`operations load | measure | neighbour`: clients of a Cassandra node.

`load` makes the rows and does the operations that go before the measured ones; `measure` does the measured ones, prints
one JSON document (and leaves it in OUT/operations.json): which tool it was, and the response times. Each client waits
for its answer before its next operation. An operation that fails is not tried again, and fails the whole.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from contend.errors import TrialFailed
from contend.workloads.generators import verbs
from contend.workloads.generators.loaders import call
from contend.workloads.parameters_file import Placeholders

SCHEMA_VERSION = 1
NEIGHBOUR = 100_000
"""Operations that a neighbour does before it looks whether they failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload cassandra. heap and server: the node's."""

    operations: int
    threads: int
    writes: int
    rows: int
    warmup: int
    heap: int
    server: str
    loader: str


@dataclass(frozen=True, slots=True)
class Load:
    """One call of a loader. what: load, which makes the rows first, or measure; many: operations."""

    what: str
    many: int
    given: Parameters
    at: Placeholders


def main(arguments: Sequence[str]) -> int:
    """Run a verb and return the exit code: 0 if every operation was answered, 1 if not, 2 for bad input."""
    return verbs.run(arguments, Parameters, {"load": _load, "measure": _measure, "neighbour": _neighbour})


def _load(given: Parameters, at: Placeholders) -> None:
    _done(Load("load", given.warmup, given, at))


def _measure(given: Parameters, at: Placeholders) -> None:
    text = json.dumps(_done(Load("measure", given.operations, given, at)), indent=1, allow_nan=False) + "\n"
    (at.out / "operations.json").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def _neighbour(given: Parameters, at: Placeholders) -> None:
    _done(Load("load", NEIGHBOUR, given, at))
    while True:
        _done(Load("measure", NEIGHBOUR, given, at))


def _done(load: Load) -> dict[str, Any]:
    return with_latte(load) if load.given.loader == "latte" else with_stress(load)


def with_latte(load: Load) -> dict[str, Any]:
    """Run the operations by latte and return their result; a `load` makes the rows first."""
    given, at = load.given, load.at
    latte, script = str(at.work / "bin" / "latte"), str(at.work / "operations.rn")
    node = f"{at.address}:{at.port}"
    rows = ["-P", f"rows={given.rows}", "-P", f"writes={given.writes}"]
    report = at.out / f"latte-{load.what}.json"
    report.unlink(missing_ok=True)
    if load.what == "load":
        call([latte, "schema", *rows, script, node], at.out / "latte-schema.txt")
        call([latte, "load", "-q", *rows, script, node], at.out / "latte-load.txt")
    # On one thread: its clients are tasks, and take no more than a part of a CPU.
    words = ["-q", "-t", "1", "-p", str(given.threads), "-d", str(load.many), "--retries", "0"]
    log = at.out / f"latte-{load.what}.txt"
    call([latte, "run", *words, *rows, "-o", str(report), script, node], log)
    version = call([latte, "--version"], at.out / "latte-version.txt").split()
    try:
        document = json.loads(report.read_text(encoding="utf-8"))
        result, latency = document["result"], document["result"]["cycle_latency"]
        values = [p["value"] / 1000 for p in latency["percentiles"]]
        value = dict(zip(document["percentiles"], values, strict=True))
        return _result(
            f"latte {version[-1]}",
            load.many,
            max(int(result["error_count"]), load.many - int(result["cycle_count"])),
            {
                "mean": latency["mean"]["value"] / 1000,
                "p50": value[50.0],
                "p99": value[99.0],
                "max": value[100.0],
            },
            float(result["elapsed_time_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrialFailed(f"latte's report cannot be read: {error!r}", hint=f"see {report}") from error


def with_stress(load: Load) -> dict[str, Any]:
    given, out = load.given, load.at.out
    node = ["-node", load.at.address, "-port", f"native={load.at.port}", "-rate", f"threads={given.threads}"]
    if load.what == "load":
        rows = [f"n={given.rows}", "cl=ONE", "no-warmup", "-pop", f"seq=1..{given.rows}"]
        call(["cassandra-stress", "write", *rows, *node], out / "stress-write.txt")
    ratio = f"ratio(write={given.writes},read={100 - given.writes})"
    kind = ["mixed", ratio] if 0 < given.writes < 100 else ["write" if given.writes else "read"]
    words = [
        *kind,
        f"n={load.many}",
        "cl=ONE",
        "no-warmup",
        "-pop",
        f"dist=UNIFORM(1..{given.rows})",
    ]
    log = out / f"stress-{load.what}.txt"
    text = call(["cassandra-stress", *words, *node], log)

    def figure(name: str) -> float:
        match = re.search(rf"^{name}\s*:\s*([\d.,]+)", text, re.MULTILINE | re.IGNORECASE)
        if match is None:
            raise TrialFailed(f"cassandra-stress does not tell its '{name}'", hint=f"see {log}")
        return float(match[1].replace(",", ""))

    seconds = {
        "mean": "Latency mean",
        "p50": "Latency median",
        "p99": "Latency 99th percentile",
        "max": "Latency max",
    }
    return _result(
        "cassandra-stress",
        load.many,
        int(figure("Total errors")),
        {name: figure(label) / 1000 for name, label in seconds.items()},
        load.many / figure("Op rate"),
    )


def _result(
    loader: str, operations: int, failed: int, response_time_s: dict[str, float], took_s: float
) -> dict[str, Any]:
    if failed:
        raise TrialFailed(
            f"{failed} of {operations} operations failed ({loader})", hint="see what the node said"
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "loader": loader,
        "operations": operations,
        "failed": 0,
        "response_time_s": response_time_s,
        "took_s": took_s,
        "throughput_per_s": operations / took_s,
    }
