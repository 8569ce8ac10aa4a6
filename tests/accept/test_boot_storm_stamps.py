"""How right the time of ACTIVE is: against nova-compute's own clock, on a test bed of the test's own. Five minutes.

Writes docs/results/boot-stamps.json. nova-compute is patched so that it writes down, by the server's name, when it began to
save its instance as ACTIVE and when that was answered: between these two the server became ACTIVE. A moment that
boot-storm says is right within them; before or after them it is off by so much.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contend.ranks import interpolated
from contend.testbed.openstack.bed import Bed
from contend.testbed.openstack.cloud import variables
from results.files import save
from support.clouds import STORM, Looking, own_bed
from support.command_line import Home

pytestmark = pytest.mark.accept

PATCH = Path(__file__).parents[1] / "support" / "nova-34-saved.patch"
Saved = dict[str, tuple[float, float]]
"""By server: CLOCK_MONOTONIC in s."""
SIZES, BLOCKS = (1, 5, 10), 3
LIMIT_S = 0.05


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with own_bed(
        tmp_path_factory.mktemp("stamps") / "bed", "--notifications", "--patch", str(PATCH)
    ) as found:
        yield found


def test_active_is_timed_right(bed: Bed, contend: Home) -> None:
    settings = (f"n=[{','.join(map(str, SIZES))}]", f"measure.blocks={BLOCKS}")
    words = [word for setting in settings for word in ("--set", setting)]
    contend(*STORM, *words, timeout=600, env={**variables(bed)}).fine()
    run = contend.the_run()
    assert Looking(variables(bed)["OS_CLOUD"], str(bed.clouds_yaml)).names("contend-") == []

    storms = [json.loads(file.read_text()) for file in sorted(run.glob("outputs/*/storm.json"))]
    saved = saved_at(bed)
    rows = [row for storm in storms for row in paired(storm, saved)]
    told = {
        "sizes": SIZES,
        "servers": len(rows),
        "save_median_s": round(
            interpolated(sorted(row["truth"][1] - row["truth"][0] for row in rows), 0.5), 4
        ),
        "polling": figures(rows, "polling"),
        "with_notifications": figures(rows, "heard"),
    }
    print(json.dumps(told, indent=1))
    save("boot-stamps", told)
    for storm in storms:
        assert all(s["active_s"][1] - s["active_s"][0] <= storm["widest_poll_s"] for s in storm["servers"])
    assert len(rows) == sum(storm["n"] for storm in storms)
    for way in ("polling", "with_notifications"):
        assert told[way]["error_median_s"] < LIMIT_S
        assert told[way]["inside"] == len(rows), "an interval does not hold the moment"


def saved_at(bed: Bed) -> Saved:
    lines = [line for file in bed.data.glob("nova/*/saved") for line in file.read_text().splitlines()]
    return {
        name: (float(begun), float(ended)) for name, begun, ended in (line.rsplit(" ", 2) for line in lines)
    }


def paired(storm: dict[str, Any], saved: Saved) -> Iterator[dict[str, Any]]:
    """Each server by its name; s from the storm's begin: (what is told, and the ends of its interval)."""
    begin = storm["begin_ns"] / 1e9
    for server in storm["servers"]:
        (low, high), heard = server["unheard_s"], server["active_s"]
        yield {
            "truth": tuple(at - begin for at in saved[server["name"]]),
            "polling": ((low + high) / 2, low, high),
            "heard": (heard[1], *heard),  # where notifications were heard, the moment is the upper end
        }


def figures(rows: list[dict[str, Any]], way: str) -> dict[str, float]:
    """inside: servers whose interval meets the time in which it was saved."""
    errors = sorted(max(0.0, row["truth"][0] - row[way][0], row[way][0] - row["truth"][1]) for row in rows)
    widths = sorted(row[way][2] - row[way][1] for row in rows)
    return {
        "error_median_s": round(interpolated(errors, 0.5), 4),
        "error_p90_s": round(interpolated(errors, 0.9), 4),
        "error_max_s": round(errors[-1], 4),
        "width_median_s": round(interpolated(widths, 0.5), 4),
        "inside": sum(row[way][1] <= row["truth"][1] and row["truth"][0] <= row[way][2] for row in rows),
    }
