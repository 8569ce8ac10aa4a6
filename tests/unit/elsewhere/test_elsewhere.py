"""What of a user's services can be known without one: configurations, words of jobs, strangers in a ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.elsewhere import builds, hadoop, removal
from contend.elsewhere.hadoop import Cluster
from contend.errors import BadInput, HostFailed

CLUSTER = """\
<configuration>
  <property><name>fs.defaultFS</name><value>hdfs://nn:8020</value></property>
  <property><name>mapreduce.framework.name</name><value>yarn</value></property>
</configuration>
"""


def conf(place: Path, **files: str) -> Path:
    for name, text in files.items():
        (place / f"{name}-site.xml").write_text(text, encoding="utf-8")
    return place


def test_a_configuration_says_what_the_cluster_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    cluster = Cluster(conf(tmp_path, core=CLUSTER), tmp_path, tmp_path)
    assert (cluster.file_system, cluster.yarn) == ("hdfs://nn:8020", True)
    alone = CLUSTER.replace(">yarn<", ">local<")
    assert not Cluster(conf(tmp_path, core=alone), tmp_path, tmp_path).yarn
    both = Cluster(conf(tmp_path, core=alone, mapred=CLUSTER), tmp_path, tmp_path)
    assert both.yarn, "mapred-site.xml is read after core-site.xml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "has no core-site.xml"),
        ("<configuration>", "is no XML"),
        ("<configuration/>", "fs.defaultFS is file:///"),
        (CLUSTER.replace("hdfs://nn:8020", "file:///data"), "fs.defaultFS is file:///data"),
    ],
)
def test_what_is_no_cluster_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Cluster(conf(tmp_path, **({"core": text} if text else {})), tmp_path, tmp_path)


def test_cpu_time_of_tasks_is_the_sum_over_jobs() -> None:
    words = "\t\tCPU time spent (ms)=1500\n…\n\t\tCPU time spent (ms)=2750\n"
    assert hadoop._tasks_cpu_s(words) == 4.25
    assert hadoop._tasks_cpu_s("Job job_1 completed") is None, "not told is not nothing"


def test_a_ledger_cannot_have_a_strangers_directory_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = hadoop.new_directory("/tmp/", "run-1")
    assert own.startswith("/tmp/contend-")
    for name in (
        "/user/hive",
        "/",
        "/tmp/contend-other-1234",
        f"{own}/../../user",
        f"/x/../{Path(own).name}",
    ):
        row = {"kind": hadoop.KIND, "name": name, "run": "run-1", "conf": "/nowhere", "lib": "/nowhere"}
        with pytest.raises(HostFailed, match="not one of contend's directories"):
            hadoop.remove(row)
    row = {"kind": hadoop.KIND, "name": own, "run": "run-1", "conf": "/no", "lib": "/"}
    (gone,) = removal.remove([row])
    assert gone.was_there
    assert "HADOOP_CONF_DIR is not set" in gone.why, "a configuration names programs: it is the environment's"
    monkeypatch.setenv("HADOOP_CONF_DIR", "/no")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (gone,) = removal.remove([row])
    assert "is not where contend keeps" in gone.why, "jars are code"
    (tmp_path / "contend/workloads/hadoop-client-3.4").mkdir(parents=True)
    (gone,) = removal.remove([row | {"lib": str(tmp_path / "contend/workloads/hadoop-client-3.4")}])
    assert "no core-site.xml" in gone.why, "its own is tried"


def test_what_is_not_known_stays_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(builds.URL, raising=False)
    (gone,) = removal.remove([{"kind": "elsewhere-moon", "name": "x"}])
    assert (gone.kind, gone.name, gone.was_there, gone.why) == (
        "elsewhere-moon",
        "x",
        True,
        "contend does not know how to remove a elsewhere-moon",
    )
