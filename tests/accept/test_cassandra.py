"""The workload that downloads what it runs: Cassandra, on the bare host and in a container."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from contend.workloads import install
from contend.workloads.load import load
from support.command_line import Home, check_files, rows
from support.prerequisites import need

SCENARIO = """\
study: compare
title: What do ten clients find, and what a hundred?
workload: cassandra
parameters: {operations: 500, warmup: 1000, loader: latte, server: 5.0.2}
variants:
  - {name: hundred}
  - {name: ten, parameters: {threads: 10}}
measure: {blocks: 2, step: 1, most: 2, pilot: 1, budget: 15m}
"""


@pytest.mark.accept
@pytest.mark.parametrize("platform", ["bare", "container"])
def test_cassandra_answers_every_operation(platform: str, contend: Home) -> None:
    need(not install.missing(load("cassandra")), install.hint([load("cassandra")]))
    need(shutil.which("mvn") and shutil.which("cargo"), "mvn and cargo")
    need(platform == "bare" or os.geteuid() == 0, "root")
    (contend.path / "cassandra.yaml").write_text(SCENARIO, encoding="utf-8")
    contend("run", "cassandra.yaml", "--set", f"platform={platform}", timeout=4000).fine()
    run = contend.the_run()
    check_files(run)
    counted = [row for row in rows(run) if row["phase"] == "counted"]
    assert [row["status"] for row in counted] == ["ok"] * 6  # with the control
    mean = {
        row["cell"]: next(m["value"] for m in row["metrics"] if m["name"] == "response_time")
        for row in counted
    }
    print(f"{platform}: {mean}")
    assert mean["hundred"] > mean["ten"], "they wait for each other at the same node"
    for row in counted:
        told = json.loads((run / f"outputs/{row['trial']:06d}/operations.json").read_text())
        assert (told["loader"], told["failed"]) == ("latte 0.29.0", 0)
