"""Clients of a Cassandra node: `python -m contend.workloads.generators.operations --what load|measure …`.

`load` makes the rows and does the operations that go before the measured ones; `measure` does the measured ones, prints
one JSON document (and leaves it in OUT/operations.json): which tool it was, and the response times. Each client waits
for its answer before its next operation. An operation that fails is not tried again, and fails the whole.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contend.errors import ContendError, TrialFailed
from contend.workloads.generators.loaders import call
from contend.workloads.generators.telling import failed

SCHEMA_VERSION = 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="operations", description="Clients of a Cassandra node.")
    parser.add_argument("--what", choices=("load", "measure"), required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--loader", choices=("latte", "cassandra-stress"), required=True)
    parser.add_argument(
        "--work", type=Path, required=True, help="latte: where bin/latte and operations.rn are"
    )
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True, help="clients")
    parser.add_argument("--writes", type=int, required=True, help="per cent of the operations")
    parser.add_argument("--operations", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="directory for what the tool writes")
    return parser


def with_latte(options: argparse.Namespace) -> dict[str, Any]:
    """The result of the operations; of `load` too, where it is the one of those that go before."""
    latte, script = str(options.work / "bin" / "latte"), str(options.work / "operations.rn")
    node = f"{options.address}:{options.port}"
    given = ["-P", f"rows={options.rows}", "-P", f"writes={options.writes}"]
    report = options.out / f"latte-{options.what}.json"
    report.unlink(missing_ok=True)
    if options.what == "load":
        call([latte, "schema", *given, script, node], options.out / "latte-schema.txt")
        call([latte, "load", "-q", *given, script, node], options.out / "latte-load.txt")
    # On one thread: its clients are tasks, and take no more than a part of a CPU.
    load = ["-q", "-t", "1", "-p", str(options.threads), "-d", str(options.operations), "--retries", "0"]
    said = options.out / f"latte-{options.what}.txt"
    call([latte, "run", *load, *given, "-o", str(report), script, node], said)
    version = call([latte, "--version"], options.out / "latte-version.txt").split()
    try:
        told = json.loads(report.read_text(encoding="utf-8"))
        result, latency = told["result"], told["result"]["cycle_latency"]
        values = [p["value"] / 1000 for p in latency["percentiles"]]
        at = dict(zip(told["percentiles"], values, strict=True))
        return _result(
            f"latte {version[-1]}",
            options.operations,
            max(int(result["error_count"]), options.operations - int(result["cycle_count"])),
            {"mean": latency["mean"]["value"] / 1000, "p50": at[50.0], "p99": at[99.0], "max": at[100.0]},
            float(result["elapsed_time_s"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrialFailed(f"latte's report cannot be read: {error!r}", hint=f"see {report}") from error


def with_stress(options: argparse.Namespace) -> dict[str, Any]:
    at = ["-node", options.address, "-port", f"native={options.port}", "-rate", f"threads={options.threads}"]
    if options.what == "load":
        rows = [f"n={options.rows}", "cl=ONE", "no-warmup", "-pop", f"seq=1..{options.rows}"]
        call(["cassandra-stress", "write", *rows, *at], options.out / "stress-write.txt")
    ratio = f"ratio(write={options.writes},read={100 - options.writes})"
    kind = ["mixed", ratio] if 0 < options.writes < 100 else ["write" if options.writes else "read"]
    asked = [
        *kind,
        f"n={options.operations}",
        "cl=ONE",
        "no-warmup",
        "-pop",
        f"dist=UNIFORM(1..{options.rows})",
    ]
    said = options.out / f"stress-{options.what}.txt"
    text = call(["cassandra-stress", *asked, *at], said)

    def figure(name: str) -> float:
        found = re.search(rf"^{name}\s*:\s*([\d.,]+)", text, re.MULTILINE | re.IGNORECASE)
        if found is None:
            raise TrialFailed(f"cassandra-stress does not tell its '{name}'", hint=f"see {said}")
        return float(found[1].replace(",", ""))

    seconds = {
        "mean": "Latency mean",
        "p50": "Latency median",
        "p99": "Latency 99th percentile",
        "max": "Latency max",
    }
    return _result(
        "cassandra-stress",
        options.operations,
        int(figure("Total errors")),
        {name: figure(label) / 1000 for name, label in seconds.items()},
        options.operations / figure("Op rate"),
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if every operation was answered, 1 if not, 2 for bad input."""
    options = _parser().parse_args(arguments)
    try:
        result = with_latte(options) if options.loader == "latte" else with_stress(options)
        if options.what == "measure":
            text = json.dumps(result, indent=1, allow_nan=False) + "\n"
            (options.out / "operations.json").write_text(text, encoding="utf-8")
            sys.stdout.write(text)
    except ContendError as error:
        return failed(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
