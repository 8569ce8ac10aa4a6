"""`burst run`: many users ask a web server for one page at once.

The load is a maintained tool's: ApacheBench, since it is of Apache's own project, counts every way to fail, and is one
process of C that takes little from a server on the same host; or JMeter, where there is one. Prints one JSON document
(and leaves it in OUT/burst.json): which tool it was, and the response times of all requests, each from the start of its
connection to the last byte. A burst in which a request fails is no measurement: it says how many, and fails.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contend.errors import BadInput, TrialFailed
from contend.workloads.generators import verbs
from contend.workloads.generators.loaders import call, summary
from contend.workloads.parameters_file import Placeholders

SCHEMA_VERSION = 1
# A page that takes longer has failed; a thousand users of one CPU wait a minute for the last one.
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of the workload wordpress. loader: ab, jmeter, or the path of ApacheJMeter.jar; workers: the server's."""

    requests: int
    workers: int
    loader: str


def main(arguments: Sequence[str]) -> int:
    """Run the load and return the exit code: 0 if every request was answered, 1 if not, 2 for bad input."""
    return verbs.run(arguments, Parameters, {"run": _run})


def _run(given: Parameters, at: Placeholders) -> None:
    """Load the server. Raises BadInput for a loader that is none, TrialFailed."""
    plan = at.work / "burst.jmx"  # which holds the same URL and users
    if given.loader == "ab":
        document = with_ab(f"http://{at.address}:{at.port}/", given.requests, at.out)
    elif given.loader == "jmeter":
        document = with_jmeter(["jmeter"], plan, given.requests, at.out)
    elif given.loader.endswith(".jar"):
        document = with_jmeter(["java", "-jar", given.loader], plan, given.requests, at.out)
    else:
        raise BadInput(
            f"'loader: {given.loader}' is no loader", hint="ab, jmeter, or the path of ApacheJMeter.jar"
        )
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    (at.out / "burst.json").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


def with_ab(url: str, requests: int, out: Path) -> dict[str, Any]:
    times = out / "ab.tsv"
    # -l: pages may differ in length. -r: one that fails does not end the others, so that all are counted.
    options = [
        "-n",
        str(requests),
        "-c",
        str(requests),
        "-s",
        str(TIMEOUT_S),
        "-l",
        "-r",
        "-q",
        "-g",
        str(times),
    ]
    output = call(["ab", *options, url], out / "ab.txt")
    failed = sum(
        int(n) for n in re.findall(r"^(?:Failed requests|Non-2xx responses):\s+(\d+)", output, re.MULTILINE)
    )
    took = re.search(r"^Time taken for tests:\s+(\S+) seconds", output, re.MULTILINE)
    version = re.search(r"^This is (ApacheBench, Version \S+)", output, re.MULTILINE)
    if took is None or not times.is_file():
        raise TrialFailed("ab wrote no result", hint=f"see {out / 'ab.txt'}")
    with times.open(encoding="utf-8", newline="") as file:
        response_s = [int(row["ttime"]) / 1000 for row in csv.DictReader(file, delimiter="\t")]
    return _result(version[1] if version else "ab", requests, failed, response_s, float(took[1]))


def with_jmeter(command: Sequence[str], plan: Path, requests: int, out: Path) -> dict[str, Any]:
    log, times = out / "jmeter.log", out / "jmeter.csv"
    times.unlink(missing_ok=True)
    settings = [
        "-Jjmeter.save.saveservice.output_format=csv",
        "-Jjmeter.save.saveservice.print_field_names=true",
    ]
    call([*command, "-n", "-t", str(plan), "-l", str(times), "-j", str(log), *settings], out / "jmeter.txt")
    if not times.is_file():
        raise TrialFailed("JMeter wrote no result", hint=f"see {log}")
    with times.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    good = [row for row in rows if row["success"] == "true"]
    starts = [int(row["timeStamp"]) for row in rows]
    ends = [int(row["timeStamp"]) + int(row["elapsed"]) for row in rows]
    version = (
        re.search(r"Version (\d\S*)", log.read_text(encoding="utf-8", errors="replace"))
        if log.exists()
        else None
    )
    took_s = (max(ends) - min(starts)) / 1000 if rows else 0.0
    response_s = [int(row["elapsed"]) / 1000 for row in good]
    return _result(
        f"JMeter {version[1]}" if version else "JMeter", requests, requests - len(good), response_s, took_s
    )


def _result(
    loader: str, requests: int, failed: int, response_s: list[float], took_s: float
) -> dict[str, Any]:
    if failed or len(response_s) != requests:
        failed = failed or requests - len(response_s)
        raise TrialFailed(
            f"{failed} of {requests} requests failed ({loader})",
            hint="see what the server said, or let fewer users come at once",
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "loader": loader,
        "requests": requests,
        "failed": 0,
        "response_time_s": summary(response_s),
        "took_s": took_s,
        "throughput_per_s": requests / max(took_s, 0.001),
    }
