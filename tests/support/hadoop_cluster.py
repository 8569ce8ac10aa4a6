"""A Hadoop cluster on loopback: HDFS and YARN as they are, each container a process; jars from Maven Central.

Hadoop's own MiniCluster starts name node, data node, resource manager and node manager in one Java.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from contend.engine.seating import downloads, free_port

RELEASE = "3.3.6"
OPENS = "--add-opens=java.base/java.lang=ALL-UNNAMED"
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>contend</groupId><artifactId>cluster</artifactId><version>1</version>
  <dependencies>
    {}
  </dependencies>
</project>
"""
ARTIFACTS = (
    (
        "org.apache.hadoop",
        "hadoop-minicluster",
        RELEASE,
    ),  # not the shaded one, which has no application master
    ("org.mockito", "mockito-core", "2.28.2"),
    ("junit", "junit", "4.13.2"),
)

ADDRESSES = (
    "yarn.resourcemanager.address",
    "yarn.resourcemanager.scheduler.address",
    "yarn.resourcemanager.resource-tracker.address",
    "yarn.resourcemanager.admin.address",
    "yarn.resourcemanager.webapp.address",
)


def jars() -> Path:
    """Downloaded once, beside what workloads download."""
    lib = downloads() / f"hadoop-cluster-{RELEASE}"
    if not lib.is_dir():
        part = lib.with_name(f"{lib.name}.{os.getpid()}")
        part.mkdir(parents=True)
        wanted = "".join(
            f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
            for g, a, v in ARTIFACTS
        )
        (part / "pom.xml").write_text(POM.format(wanted), encoding="utf-8")
        words = ["mvn", "-q", "-B", "-f", str(part / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*words, "-DincludeScope=runtime", f"-DoutputDirectory={part}"], check=True)
        part.rename(lib)
    return lib


@dataclass(frozen=True)
class Running:
    """conf: its configuration directory."""

    conf: Path
    lib: Path
    place: Path

    def java(self, main: str, *words: str) -> str:
        command = ["java", OPENS, "-cp", f"{self.conf}:{self.lib}/*", main, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self) -> list[str]:
        """Everything below the root that carries contend's name."""
        told = self.java("org.apache.hadoop.fs.FsShell", "-ls", "-R", "/")
        return [line.split()[-1] for line in told.splitlines() if "contend-" in line]

    def working(self) -> list[str]:
        """Applications that have not ended."""
        told = self.java("org.apache.hadoop.yarn.client.cli.ApplicationCLI", "application", "-list")
        return [line.split()[0] for line in told.splitlines() if line.startswith("application_")]


@contextmanager
def serving(place: Path) -> Iterator[Running]:
    """Until it serves, and gone with all its processes afterwards."""
    lib, conf = jars(), place / "conf"
    conf.mkdir(parents=True)
    opens = f"-Xmx256m {OPENS}"
    ports = {name: f"localhost:{free_port()}" for name in ADDRESSES}
    settings = {
        **ports,
        "mapreduce.framework.name": "yarn",
        "mapreduce.application.classpath": f"{lib}/*",
        "yarn.application.classpath": f"{lib}/*",
        "yarn.nodemanager.resource.memory-mb": "3072",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.enable": "false",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.app.mapreduce.am.resource.mb": "512",
        "yarn.app.mapreduce.am.command-opts": opens,
        "mapreduce.map.memory.mb": "384",
        "mapreduce.reduce.memory.mb": "384",
        "mapreduce.map.java.opts": opens,
        "mapreduce.reduce.java.opts": opens,
        "mapreduce.task.io.sort.mb": "64",
        "hadoop.tmp.dir": str(place / "tmp"),
    }
    words = [
        "java", "-Xmx1g", OPENS, f"-Dtest.build.data={place}/data", f"-Djava.io.tmpdir={place}", "-cp", f"{lib}/*",
        "org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-format", "-datanodes", "1", "-nodemanagers", "1",
        "-writeConfig", str(place / "core-site.part"), "-rmport", ports["yarn.resourcemanager.address"].rpartition(":")[2],
    ]  # fmt: skip
    words += [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    with (place / "cluster.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=place, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not (place / "core-site.part").exists():
            assert process.poll() is None, (place / "cluster.log").read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline, "the cluster does not serve within 120 s"
            time.sleep(0.2)
        time.sleep(1)  # it is being written
        # All of it in each: what is in one file only is overridden by the defaults of the other parts.
        for part in ("core", "hdfs", "mapred", "yarn"):
            shutil.copy(place / "core-site.part", conf / f"{part}-site.xml")
        yield Running(conf, lib, place)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                os.killpg(process.pid, number)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    continue
        _end_containers(place)


def _end_containers(place: Path) -> None:
    """A node manager's containers have sessions of their own; their directories are below the cluster's."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if os.fsencode(place) in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue
