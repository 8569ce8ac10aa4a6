"""`terasort-cluster` on a Hadoop cluster of this machine: HDFS and YARN, whose containers are processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.elsewhere import hadoop
from support import hadoop_cluster
from support.command_line import Home, check_files, rows, wait_for
from support.hadoop_cluster import Running

pytestmark = pytest.mark.accept


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with hadoop_cluster.serving(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def scenario(home: Home, text: str) -> str:
    (home.path / "s.yaml").write_text(text, encoding="utf-8")
    return "s.yaml"


def compare(conf: Path, rows: int = 20_000) -> str:
    return f"""\
study: compare
workload: terasort-cluster
parameters: {{conf: {conf}, rows: {rows}, directory: /tmp/of-contend}}
variants: [{{name: one, parameters: {{reduces: 1}}}}, {{name: two, parameters: {{reduces: 2}}}}]
measure: {{target: null, blocks: 1, pilot: 1, seed: 3, design: pairs}}
"""


def test_rows_are_sorted_on_the_cluster_and_nothing_stays_there(tmp_path: Path, cluster: Running) -> None:
    home = Home(tmp_path)
    home("run", scenario(home, compare(cluster.conf)), timeout=1200).fine()
    check_files(home.the_run())
    counted = [row for row in rows(home.the_run()) if row["phase"] == "counted"]
    assert len(counted) >= 2
    for row in counted:
        assert row["status"] == "ok", row
        told = {metric["name"]: metric["value"] for metric in row["metrics"]}
        assert told["wall"] == pytest.approx(told["teragen"] + told["terasort"] + told["teravalidate"])
        assert told["tasks_cpu"] > 0.5, "several Javas on the cluster"
    assert cluster.files() == []
    assert cluster.working() == []
    home.nothing_left()


def test_a_neighbours_jobs_do_not_outlast_it(tmp_path: Path, cluster: Running) -> None:
    home = Home(tmp_path)
    asked = scenario(
        home,
        "study: interference\nvictims: [tiny]\n"
        f"neighbours: [{{terasort-cluster: {{conf: {cluster.conf}, rows: 3000000}}}}]\n"
        "measure: {target: null, blocks: 1, pilot: 1, seed: 3}\n",
    )
    home("run", asked, timeout=1200).fine()
    assert any(row["neighbours"] for row in rows(home.the_run()))
    assert cluster.files() == []
    assert cluster.working() == []
    home.nothing_left()


def test_what_a_kill_leaves_on_the_cluster_is_destroyed(tmp_path: Path, cluster: Running) -> None:
    home = Home(tmp_path)
    running = home.start(
        "run", scenario(home, compare(cluster.conf, rows=3_000_000)),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(cluster.working, "a job on the cluster", 300, interval_s=0.5)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    # A run's own ledger names the cluster: what it says is done there only where its user says so, too.
    refused = home("destroy", str(home.the_run()), env={"HADOOP_CONF_DIR": None}, timeout=300)
    assert (
        refused.code == 1
        and "HADOOP_CONF_DIR is not set; if that configuration is yours, set it" in refused.err
    )
    yours: dict[str, str | None] = {"HADOOP_CONF_DIR": str(cluster.conf)}
    told = home("destroy", str(home.the_run()), "--json", env=yours, timeout=300).fine().json()
    assert any(item["kind"] == hadoop.KIND and item["was_there"] for item in told["removed"]), told
    assert cluster.working() == []
    assert cluster.files() == []
    home.nothing_left()


def test_what_is_no_cluster_is_refused(tmp_path: Path, cluster: Running) -> None:
    home = Home(tmp_path)
    home("run", scenario(home, compare(tmp_path / "none"))).error(2, "is no Hadoop configuration")
    local = tmp_path / "local"
    local.mkdir()
    (local / "core-site.xml").write_text("<configuration/>", encoding="ascii")
    home("run", scenario(home, compare(local))).error(
        2, "names no cluster's file system", "workload terasort"
    )
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:9</value></property></configuration>",
        encoding="ascii",
    )
    said = home("run", scenario(home, compare(gone)), timeout=300)
    assert said.code not in (0, 3)
    assert "Connection refused" in said.err, said
