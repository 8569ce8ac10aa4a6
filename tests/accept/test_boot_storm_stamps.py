"""How right the time of ACTIVE is: against the services' own traces, on a test bed of the test's own. Five minutes.

Writes docs/results/boot-stamps.json. The truth is when nova-compute, having saved its instance as ACTIVE, goes on to tell
the scheduler: the span of `_update_scheduler_instance_info`. Traces do not tell instances apart, so that the servers of a
storm and the spans in it are paired in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend import _native
from contend.clouds.storm.document import quantile
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.cloud import variables
from results.files import save
from support.clouds import STORM, Looking, check_beside, own_bed
from support.command_line import Home

pytestmark = pytest.mark.accept

SAVED = "nova.compute.manager:ComputeManager._update_scheduler_instance_info"
SIZES, BLOCKS = (1, 5, 10), 3
LIMIT_S = 0.05


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Path]]:
    place = tmp_path_factory.mktemp("stamps")
    traces = place / "traces"
    with own_bed(place / "bed", "--notifications", "--traced", str(traces), "--include", SAVED) as found:
        yield found, traces


def test_active_is_timed_right(bed: tuple[Bed, Path], contend: Home) -> None:
    found, traces = bed
    settings = (f"n=[{','.join(map(str, SIZES))}]", f"measure.blocks={BLOCKS}", f"parameters.traces={traces}")
    words = [word for setting in settings for word in ("--set", setting)]
    contend(*STORM, *words, timeout=600, env={**variables(found)}).fine()
    run = contend.the_run()
    assert Looking(variables(found)["OS_CLOUD"], str(found.clouds_yaml)).names("contend-") == []
    check_beside(contend, found.root)

    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    moments = saved_at(traces, run / "chrome.json")
    rows = [pair for storm in storms for pair in pairs(storm, moments)]
    told = {
        "sizes": SIZES,
        "servers": len(rows),
        "polling": figures(rows, "polling"),
        "with_notifications": figures(rows, "heard"),
    }
    print(json.dumps(told, indent=1))
    save("boot-stamps", told)
    for storm in storms:
        assert all(s["active_s"][1] - s["active_s"][0] <= storm["widest_poll_s"] for s in storm["servers"])
    assert told["with_notifications"]["error_median_s"] < LIMIT_S
    assert told["polling"]["error_median_s"] < LIMIT_S


def saved_at(traces: Path, place: Path) -> list[float]:
    """CLOCK_MONOTONIC in s, in order."""
    _native.ctrace_export([str(traces)], "chrome", str(place))
    events = json.loads(place.read_text(encoding="utf-8"))["traceEvents"]
    return sorted(e["ts"] / 1e6 for e in events if e.get("ph") in ("B", "X") and e["name"] == SAVED)


def pairs(storm: dict[str, Any], moments: list[float]) -> Iterator[dict[str, Any]]:
    begin = storm["begin_ns"] / 1e9
    last = max(server["deleted_s"] for server in storm["servers"])
    truth = [at - begin for at in moments if 0 <= at - begin <= last]
    assert len(truth) == storm["n"]
    ways = {}
    for way, key in (("polling", "unheard_s"), ("heard", "active_s")):
        seen = [server[key] for server in storm["servers"]]
        # Where notifications were heard, the moment is the upper end.
        ways[way] = sorted((high if way == "heard" else (low + high) / 2, low, high) for low, high in seen)
    for k, at in enumerate(truth):
        yield {"truth": at, "polling": ways["polling"][k], "heard": ways["heard"][k]}


def figures(rows: list[dict[str, Any]], way: str) -> dict[str, float]:
    errors = sorted(abs(row[way][0] - row["truth"]) for row in rows)
    widths = sorted(row[way][2] - row[way][1] for row in rows)
    return {
        "error_median_s": round(quantile(errors, 0.5), 4),
        "error_p90_s": round(quantile(errors, 0.9), 4),
        "error_max_s": round(errors[-1], 4),
        "width_median_s": round(quantile(widths, 0.5), 4),
        "inside": sum(row[way][1] <= row["truth"] <= row[way][2] for row in rows),
    }
