"""What a workload downloads: once, outside the platform, into a cache that later runs find."""

from __future__ import annotations

import os
import shutil

import pytest

from support.command_line import Home, check_files, rows
from support.prerequisites import need

WORKLOAD = """\
name: fetched
fetch: >-
  sh -c 'test -e "$1/tool" || { sleep 0.1; echo "echo 4.5" >"$1/tool"; echo once >>"$1/downloads"; };
  cp "$1/tool" "$2"' fetch {cache} {work}
prepare: test -e tool
run: sh {work}/tool
metrics: {figure: {from: stdout, pattern: '(.+)', unit: s, better: lower}}
dominant: cpu
trial: 100ms
"""


@pytest.mark.one_of("strays")  # whoever lists containers fails at one that goes
def test_it_is_kept_for_later_runs_and_seen_in_a_container(contend: Home) -> None:
    need(os.geteuid() == 0 and shutil.which("runc"), "runc as root")
    contend.workload("fetched", WORKLOAD)
    scenario = contend.scenario(victim="fetched", blocks=1)
    cache = {"XDG_CACHE_HOME": str(contend.path / "cache")}
    for platform in ("bare", "{kind: container, engine: runc}"):
        contend("run", scenario, "--set", f"platform={platform}", env=cache).fine()
    for run in contend.run_directories():
        check_files(run)
        assert {metric["value"] for row in rows(run) for metric in row["metrics"]} == {4.5}
    assert (contend.path / "cache/contend/workloads/downloads").read_text() == "once\n"


def test_what_cannot_be_had_fails_with_the_reason(contend: Home) -> None:
    contend.workload("fetched", WORKLOAD.replace("sleep 0.1", 'echo "no network here" >&2; exit 7'))
    said = contend("run", contend.scenario(victim="fetched"), env={"XDG_CACHE_HOME": str(contend.path)})
    (row,) = rows(contend.the_run())[:1] or [{}]
    assert "getting what is needed for fetched failed with exit status 7" in said.err + str(row)
    assert "it said: no network here" in said.err + str(row)
