"""Results as other tools write them, made from known values.

Those of k6 and JMeter are held to what the real ones wrote by tests/contract/imports/test_recorded_tools.py. All are
written after each tool's documentation and source, which `contend.imports.formats` names: of fio HOWTO and stat.c, of
iperf3 iperf_api.c, of Rally its exporters, of k6 grafana.com/docs/k6 (Results output), of JMeter its manual (CSV log
format), of pgbench printResults, of sysbench report_cumulative. Nothing here is copied from a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.foreign_rally import NOON, rally_old, rally_report

__all__ = ["NOON", "rally_old", "rally_report"]


def write(path: Path, content: Any) -> Path:
    """Text as it is, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def hyperfine(
    commands: dict[str, Sequence[float]], codes: dict[str, Sequence[int | None]] | None = None
) -> dict[str, Any]:
    return {
        "results": [
            {
                "command": command,
                "mean": sum(times) / len(times),
                "stddev": 0.01,
                "median": sorted(times)[len(times) // 2],
                "user": 0.1,
                "system": 0.2,
                "min": min(times),
                "max": max(times),
                "times": list(times),
                "exit_codes": list((codes or {}).get(command, [0] * len(times))),
            }
            for command, times in commands.items()
        ]
    }


def fio(
    iops: float = 86_000.0,
    *,
    at: float = NOON,
    runtime_s: float = 10.0,
    job: str = "randread",
    way: str = "read",
    clones: int = 1,
    error: int = 0,
    p99_ns: int = 700_000,
    **options: str,
) -> dict[str, Any]:
    """One job; `clones` as of numjobs. at: when it began."""
    total = round(iops * runtime_s)
    idle = {"total_ios": 0, "iops": 0.0, "bw_bytes": 0, "runtime": 0, "clat_ns": {"N": 0, "mean": 0.0}}
    active = {
        "io_bytes": total * 4096,
        "bw_bytes": round(iops * 4096),
        "bw": round(iops * 4),
        "iops": iops,
        "runtime": round(runtime_s * 1000),
        "total_ios": total,
        "clat_ns": {
            "min": 1000,
            "max": 9_000_000,
            "mean": 350_000.0,
            "stddev": 1.0,
            "N": total,
            "percentile": {
                "1.000000": 100_000,
                "50.000000": 300_000,
                "99.000000": p99_ns,
                "99.900000": 2_000_000,
            },
        },
        "lat_ns": {"min": 1000, "max": 9_000_000, "mean": 351_000.0, "stddev": 1.0, "N": total},
    }
    one = {
        "jobname": job,
        "groupid": 0,
        "error": error,
        "elapsed": round(runtime_s) + 1,
        "job options": {"name": job, "rw": "randread", "bs": "4k", "iodepth": "32", **options},
        "read": idle,
        "write": idle,
        "trim": idle,
        "job_runtime": round(runtime_s * 1000),
        "usr_cpu": 10.0,
        "sys_cpu": 20.0,
    } | {way: active}
    return {
        "fio version": "fio-3.33",
        "timestamp": round(at + runtime_s),
        "timestamp_ms": round((at + runtime_s) * 1000),
        "time": "Thu Jan  1 12:00:10 2026",
        "global options": {"ioengine": "libaio", "direct": "1"},
        "jobs": [one] * clones,
        "disk_util": [],
    }


def iperf3(bits: float = 9.4e9, *, at: float = NOON, protocol: str = "TCP", **asked: Any) -> dict[str, Any]:
    test = {
        "protocol": protocol, "num_streams": 1, "blksize": 131072, "omit": 0, "duration": 10, "bytes": 0, "blocks": 0,
        "reverse": 0, "tos": 0,
    }  # fmt: skip
    counted = {
        "start": 0,
        "end": 10.0,
        "seconds": 10.0,
        "bytes": round(bits * 10 / 8),
        "bits_per_second": bits,
    }
    end: dict[str, Any] = {
        "cpu_utilization_percent": {"host_total": 31.0, "host_user": 1.0, "remote_total": 42.0}
    }
    if protocol == "UDP":
        lossy = {"jitter_ms": 0.02, "lost_packets": 5, "packets": 1000, "lost_percent": 0.5}
        end |= {"sum": counted | lossy}
    else:
        end |= {"sum_sent": counted | {"retransmits": 7, "sender": True}, "sum_received": counted}
    return {
        "start": {
            "connected": [],
            "version": "iperf 3.12",
            "system_info": "Linux host 6.1.0 x86_64",
            "timestamp": {"time": "Thu, 01 Jan 2026 12:00:00 GMT", "timesecs": int(at)},
            "connecting_to": {"host": "127.0.0.1", "port": 5201},
            "test_start": test | asked,
        },
        "intervals": [{"streams": [], "sum": counted}] * 10,
        "end": end,
    }


def sysbench_cpu(rate: float = 1234.56, *, threads: int = 4, target: int = 0) -> str:
    limited = f"Target transaction rate: {target}/sec\n" if target else ""
    return f"""sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: {threads}
{limited}Initializing random number generator from current time


Prime numbers limit: 10000

Initializing worker threads...

Threads started!

CPU speed:
    events per second: {rate}

General statistics:
    total time:                          10.0005s
    total number of events:              12350

Latency (ms):
         min:                                    0.70
         avg:                                    0.81
         max:                                    9.90
         95th percentile:                        0.90
         sum:                                 9998.11

Threads fairness:
    events (avg/stddev):           3087.5000/5.00
    execution time (avg/stddev):   2.4995/0.00
"""


def sysbench_1_1(text: str, rate: float) -> str:
    """The output of a sysbench 1.0 as 1.1 writes it; not of fileio."""
    began, _, rest = text.replace("sysbench 1.0.20", "sysbench 1.1.0-3ceba0b").partition(
        "General statistics:\n"
    )
    took, events, rest = rest.split("\n", 2)
    elapsed = took.replace("total time:  ", "time elapsed:")
    return f"{began}Throughput:\n    events/s (eps):                      {rate:.4f}\n{elapsed}\n{events}\n{rest}"


def sysbench_fileio(read: float = 800.5, write: float = 0.0, *, version: str = "1.0.20") -> str:
    """Operations a second of 16 KiB."""
    head = f"""sysbench {version} (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Extra file open flags: (none)
4 files, 8MiB each
32MiB total file size
Block size 16KiB
Number of IO requests: 0
Read/Write ratio for combined random IO test: 1.50
Periodic FSYNC enabled, calling fsync() each 100 requests.
Calling fsync() at the end of test, Enabled.
Using synchronous I/O mode
Doing random read test
Initializing worker threads...

Threads started!

"""
    if version.startswith("1.1"):
        return f"""{head}
Throughput:
         read:  IOPS={read:4.2f} {read / 64:4.2f} MiB/s ({read * 0.016384:4.2f} MB/s)
         write: IOPS={write:4.2f} {write / 64:4.2f} MiB/s ({write * 0.016384:4.2f} MB/s)
         fsync: IOPS=0.00

Latency (ms):
         min:                                  0.70
         avg:                                  1.25
         max:                                  9.90
         95th percentile:                      1.50
         sum:                               9998.11

"""
    return f"""{head}
File operations:
    reads/s:                      {read:4.2f}
    writes/s:                     {write:4.2f}
    fsyncs/s:                     0.00

Throughput:
    read, MiB/s:                  {read / 64:4.2f}
    written, MiB/s:               {write / 64:4.2f}

General statistics:
    total time:                          10.0005s
    total number of events:              8005

Latency (ms):
         min:                                    0.70
         avg:                                    1.25
         max:                                    9.90
         95th percentile:                        1.50
         sum:                                 9998.11

Threads fairness:
    events (avg/stddev):           8005.0000/0.00
    execution time (avg/stddev):   9.9981/0.00
"""


def sysbench_threads() -> str:
    return """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Initializing worker threads...

Threads started!


General statistics:
    total time:                          1.0004s
    total number of events:              984

Latency (ms):
         min:                                    0.49
         avg:                                    1.01
         max:                                    6.82
         95th percentile:                        3.43
         sum:                                  997.37

Threads fairness:
    events (avg/stddev):           984.0000/0.00
    execution time (avg/stddev):   0.9974/0.00
"""


def sysbench_oltp(rate: float = 333.3) -> str:
    return f"""sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 2
Report intermediate results every 1 second(s)
Initializing random number generator from current time


Initializing worker threads...

Threads started!

[ 1s ] thds: 2 tps: 330.00 qps: 6600.00 (r/w/o: 1/2/3) lat (ms,95%): 8.00 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 2 tps: 340.00 qps: 6800.00 (r/w/o: 1/2/3) lat (ms,95%): 8.00 err/s: 0.00 reconn/s: 0.00
SQL statistics:
    queries performed:
        read:                            46662
        write:                           13332
        other:                           6666
        total:                           66660
    transactions:                        3333   ({rate} per sec.)
    queries:                             66660  (6666.00 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          10.0001s
    total number of events:              3333

Latency (ms):
         min:                                    4.00
         avg:                                    6.00
         max:                                   20.00
         95th percentile:                        8.13
         sum:                                19998.00

Threads fairness:
    events (avg/stddev):           1666.5000/5.00
    execution time (avg/stddev):   9.9990/0.00
"""


def pgbench(tps: float = 1234.5, *, clients: int = 4, rate: bool = False, statements: bool = False) -> str:
    lag = "rate limit schedule lag: avg 0.250 (max 12.300) ms\n" if rate else ""
    told = (
        "statement latencies in milliseconds and failures:\n"
        "         0.002           0  \\set aid random(1, 100000 * :scale)\n"
        "         1.250           0  UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
        if statements
        else ""
    )
    return f"""pgbench (15.15 (Debian 15.15-0+deb12u1))
starting vacuum...end.
progress: 1.0 s, 1200.0 tps, lat 3.100 ms stddev 0.500, 0 failed
progress: 2.0 s, 1260.0 tps, lat 3.300 ms stddev 0.500, 0 failed
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 1
query mode: simple
number of clients: {clients}
number of threads: 1
maximum number of tries: 1
duration: 2 s
number of transactions actually processed: 2469
number of failed transactions: 0 (0.000%)
{lag}latency average = 3.240 ms
latency stddev = 0.510 ms
initial connection time = 5.678 ms
tps = {tps} (without initial connection time)
{told}"""


# From `check` on: tags of a request, and of what is no request.
_OF_REQUEST = ",,,true,,GET,http://test/,HTTP/1.1,{scenario},,200,,,http://test/,,"
_OF_REFUSED = ",,1404,false,,GET,http://test/,HTTP/1.1,{scenario},,404,,,http://test/,,"
_OF_OTHERS = ",,,,,,,,{scenario},,,,,,,"


def k6_table(
    durations_ms: Sequence[float], *, scenario: str = "default", at: float = NOON, failed: int = 0
) -> str:
    """A request each 100 ms, an iteration each; the first `failed` of them failed."""
    columns = (
        "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,"
        "service,status,subproto,tls_version,url,extra_tags,metadata"
    )
    lines = [columns]

    def add(metric: str, when: float, value: float, tags: str) -> None:
        lines.append(f"{metric},{int(when)},{value:.6f},{tags.format(scenario=scenario)}")

    for number, duration in enumerate(durations_ms):
        when = at + number / 10
        tags = _OF_REFUSED if number < failed else _OF_REQUEST
        add("http_reqs", when, 1, tags)
        add("http_req_duration", when, duration, tags)
        add("http_req_waiting", when, duration, tags)
        add("http_req_failed", when, 1 if number < failed else 0, tags)
        add("iteration_duration", when, duration + 1, _OF_OTHERS)
        add("iterations", when, 1, _OF_OTHERS)
    for metric, value in (("vus", 5), ("vus_max", 10)):
        lines.append(f"{metric},{int(at)},{value:.6f}{',' * 16}")
    return "\n".join(lines) + "\n"


def k6_summary(rate: float = 87.5, p95_ms: float = 215.95, *, nested: bool = False) -> dict[str, Any]:
    """What --summary-export writes; `nested`: what handleSummary is given."""
    trend = {"avg": 144.56, "min": 104.11, "med": 110.47, "max": 1140.0, "p(90)": 203.54, "p(95)": p95_ms}
    values: dict[str, tuple[str, dict[str, float]]] = {
        "http_reqs": ("counter", {"count": 875, "rate": rate}),
        "iterations": ("counter", {"count": 875, "rate": rate}),
        "http_req_duration": ("trend", trend),
        "http_req_duration{expected_response:true}": ("trend", trend),
        "iteration_duration": ("trend", trend),
        "http_req_failed": ("rate", {"passes": 7, "fails": 868, "rate" if nested else "value": 0.008}),
        "vus_max": ("gauge", {"value": 20, "min": 20, "max": 20}),
        "data_received": ("counter", {"count": 1000, "rate": 100.0}),
    }
    if nested:
        metrics: dict[str, Any] = {
            name: {"type": kind, "contains": "default", "values": told}
            for name, (kind, told) in values.items()
        }
        return {"metrics": metrics, "root_group": {}, "state": {"testRunDurationMs": 10_000.0}, "options": {}}
    return {"metrics": {name: told for name, (_, told) in values.items()}, "root_group": {}}


def jmeter(
    elapsed_ms: Sequence[int], *, label: str = "login", at: float = NOON, threads: int = 2, failed: int = 0
) -> str:
    """A sample each 100 ms of one thread after the other; the first `failed` of them failed."""
    lines = [
        "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,"
        "grpThreads,allThreads,URL,Latency,IdleTime,Connect"
    ]
    for number, took in enumerate(elapsed_ms):
        stamp = round((at + number / 10) * 1000)
        good = "false" if number < failed else "true"
        lines.append(
            f"{stamp},{took},{label},200,OK,Thread Group 1-{number % threads + 1},text,{good},,500,120,{threads},{threads},"
            f"http://test/,{took - 1},0,1"
        )
    return "\n".join(lines) + "\n"
