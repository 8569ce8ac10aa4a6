"""What a preparation has started goes on between trials: whose load it is, and what is told where it cannot be ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.command_line import Home, rows
from support.strangers import strangers

# A server that never rests, started once for both variants by whichever is prepared first; gone by itself after a minute.
WORKLOAD = """\
name: lodger
parameters: {words: {default: one}}
prepare: >-
  sh -c '[ -e ../server ] || { timeout 60 sh -c "while :; do :; done" > ../said 2>&1 & echo $! > ../server; }; : {words}'
run: sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done; echo {words}'
finish: "sh -c 'kill $(cat ../server) || true'"
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 1s
"""
SCENARIO = """\
study: compare
workload: lodger
variants: [{name: first, parameters: {words: one}}, {name: second, parameters: {words: two}}]
measure: {target: null, blocks: 3, pilot: 1, seed: 5}
"""


def evidence(row: dict[str, Any], name: str) -> float:
    return next(float(item["value"]) for item in row["evidence"] if item["name"] == name)


@pytest.mark.alone
def test_a_server_that_all_variants_share_is_foreign_to_none(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.workload("lodger", WORKLOAD)
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    with strangers() as others:
        home("run", "s.yaml", "--runs", str(home.runs)).fine()
    counted = [row for row in rows(home.the_run()) if row["phase"] == "counted" and row["status"] == "ok"]
    for variant in ("first", "second"):
        mine = [row for row in counted if row["factors"]["variant"] == variant]
        assert len(mine) >= 3
        # The server wants a CPU all the time. Beside it there is what else this machine does.
        least = min(evidence(row, "foreign_cpu") / evidence(row, "wall") for row in mine)
        assert least < 0.3 + others.cpus, f"{variant}: {least:.2f} CPUs of nobody's"
    with_server = min(evidence(row, "cpu") / evidence(row, "wall") for row in counted)
    most = max(evidence(row, "cpu") / evidence(row, "wall") for row in counted)
    # Of CPUs that others want too the server gets less.
    assert most > with_server + 0.3 / (1 + others.cpus), "the server ran, and was one party's"


def test_what_went_wrong_first_is_told_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    broken = WORKLOAD.replace("; : {words}'", "; echo the disk is mouldy >&2; exit 3'")
    home.workload("lodger", broken.replace("|| true'", "; echo nothing to end >&2; exit 4'"))
    (tmp_path / "s.yaml").write_text(SCENARIO, encoding="utf-8")
    said = home("run", "s.yaml", "--runs", str(home.runs)).error(
        1, "preparing first failed", "the disk is mouldy"
    )
    assert "nor finishing first failed with exit status 4" in said.err
    home.nothing_left()
