"""A Hadoop cluster of the user's: its configuration, programs that are run on it, directories and jobs that a run has there.

Programs are Java's, started with Hadoop's client jars and the cluster's configuration directory, as `hadoop` does. What a
run starts carries its directory's name as a tag, by which YARN tells and ends it; without YARN jobs run in the client.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from contend import names
from contend.elsewhere.builds import GoesOn, unheard
from contend.errors import BadInput, HostFailed
from contend.platforms.packages import install_command
from contend.store import ownership, state

KIND = "elsewhere-hadoop"
CONF, USUAL_CONF = "HADOOP_CONF_DIR", "/etc/hadoop/conf"
SHELL = "org.apache.hadoop.fs.FsShell"
APPLICATIONS = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
EXAMPLES = "org.apache.hadoop.examples.ExampleDriver"
ANSWER_S, LOOK_S = 120.0, 0.25
YARN_S = 45.0  # its command line waits for one that is not there for a quarter of an hour
# As long as the others.
_IMPATIENT = (
    "-Dipc.client.connect.max.retries=3",
    "-Dipc.client.connect.max.retries.on.timeouts=2",
    "-Dyarn.resourcemanager.connect.max-wait.ms=15000",
    "-Dyarn.resourcemanager.connect.retry-interval.ms=3000",
)
_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c{2}: %m%n
"""


class Done(NamedTuple):
    """A program that has ended. cpu_s: CPU time of its tasks on the cluster, as its jobs counted; None: unknown."""

    seconds: float
    out: str
    cpu_s: float | None


class Cluster:
    """A Hadoop cluster, by its client. conf: the directory with core-site.xml; lib: Hadoop's client jars; scratch: for logs.

    Raises BadInput, HostFailed."""

    def __init__(self, conf: Path, lib: Path, scratch: Path, heap_mib: int = 512) -> None:
        settings = _settings(conf)
        self.conf, self.lib, self.scratch, self._heap = conf.resolve(), lib.resolve(), scratch, heap_mib
        self.file_system = settings.get("fs.defaultFS") or settings.get("fs.default.name") or "file:///"
        if self.file_system.startswith("file:"):
            raise BadInput(
                f"{conf} names no cluster's file system: fs.defaultFS is {self.file_system}",
                hint="for Hadoop in one process on this machine: workload terasort",
            )
        self.yarn = settings.get("mapreduce.framework.name", "local").startswith("yarn")
        if shutil.which("java") is None:
            raise HostFailed("no java on PATH", hint=install_command("openjdk-17-jre-headless"))

    def run(
        self,
        main: str,
        *arguments: str,
        program: str = "",
        tag: str = "",
        timeout_s: float = ANSWER_S,
        log: str = "hadoop.log",
        goes_on: GoesOn = unheard,
    ) -> Done:
        """Run a class, or a program of a class that has several, to its end. goes_on: told when it has a job on the cluster,
        and when no more. Raises HostFailed where it fails, with its own last word on that."""
        logging = self.scratch / "log4j"
        logging.mkdir(parents=True, exist_ok=True)
        (logging / "log4j.properties").write_text(_LOG4J, encoding="ascii")
        path = os.pathsep.join((str(logging), str(self.conf), f"{self.lib}/*"))
        # ApplicationCLI looks for its own verb where such options begin.
        words = [
            "java", f"-Xmx{self._heap}m", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path, main,
            *([program] if program else []), *(_IMPATIENT if main != APPLICATIONS else ()),
            *([f"-Dmapreduce.job.tags={tag}"] if tag else []), *arguments,
        ]  # fmt: skip
        what = " ".join((program or main.rpartition(".")[2], *arguments[:2]))
        began = time.monotonic()
        file = self.scratch / log
        with file.open("wb") as errors:
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
            try:
                out = _followed(process, file, began + timeout_s, goes_on)
            except subprocess.TimeoutExpired:
                raise HostFailed(
                    f"{what} has not ended within {timeout_s:.0f} s", hint=_last_words(file)
                ) from None
            finally:
                goes_on(False)
                if process.poll() is None:
                    process.kill()
                    process.wait()
        seconds = time.monotonic() - began
        text = file.read_text(encoding="utf-8", errors="replace")
        if process.returncode:
            raise HostFailed(f"{what} failed with exit status {process.returncode}", hint=_last_words(file))
        return Done(seconds, out.decode(errors="replace"), _tasks_cpu_s(text))

    def make(self, directory: str) -> None:
        self.run(SHELL, "-mkdir", "-p", directory)

    def remove(self, directory: str) -> bool:
        """End what carries its name, and remove it. False where it was not there. Raises HostFailed."""
        ended = self.end_jobs(Path(directory).name)
        done = self.run(SHELL, "-rm", "-r", "-f", "-skipTrash", directory)
        return ended > 0 or "Deleted" in done.out

    def end_jobs(self, tag: str) -> int:
        """End the YARN jobs that carry this tag, and return how many there were."""
        if not self.yarn:
            return 0
        states = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
        about = ("-appTags", tag, "-appStates", states)
        listing = self.run(APPLICATIONS, "application", "-list", *about, timeout_s=YARN_S)
        applications = sorted(set(re.findall(r"^(application_\d+_\d+)\s", listing.out, re.MULTILINE)))
        for name in applications:
            self.run(APPLICATIONS, "application", "-kill", name, timeout_s=YARN_S)
        return len(applications)


def _followed(process: subprocess.Popen[bytes], log: Path, until: float, goes_on: GoesOn) -> bytes:
    """Read what it writes. Raises TimeoutExpired."""
    while True:
        try:
            out, _ = process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                raise
            goes_on("Running job:" in log.read_text(encoding="utf-8", errors="replace"))
        else:
            return out


def _settings(conf: Path) -> dict[str, str]:
    """Settings of core-site.xml and mapred-site.xml. Raises BadInput."""
    settings: dict[str, str] = {}
    if not (conf / "core-site.xml").is_file():
        raise BadInput(
            f"{conf} is no Hadoop configuration: it has no core-site.xml",
            hint="the directory that HADOOP_CONF_DIR names on the cluster's machines",
        )
    for name in ("core-site.xml", "mapred-site.xml"):
        if not (conf / name).is_file():
            continue
        try:
            root = ET.parse(conf / name).getroot()
        except ET.ParseError as error:
            raise BadInput(f"{conf / name} is no XML: {error}", hint="is it the cluster's file?") from None
        for entry in root.iter("property"):
            settings[(entry.findtext("name") or "").strip()] = (entry.findtext("value") or "").strip()
    return settings


def new_directory(parent: str, run: str) -> str:
    """The name of a directory of a run below `parent`, on the cluster; not made yet."""
    return f"{parent.rstrip('/') or '.'}/{names.PREFIX}-{names.short_hash(run)}-{secrets.token_hex(4)}"


def remove(row: Mapping[str, Any]) -> bool:
    """Remove a directory that a ledger tells of, and end what works in it. Raises HostFailed, BadInput."""
    directory = str(row["name"])
    if ".." in Path(directory).parts or not Path(directory).name.startswith(
        f"{names.PREFIX}-{names.short_hash(str(row['run']))}-"
    ):
        raise HostFailed(
            f"{directory} is not one of contend's directories", hint="the ledger names a stranger"
        )
    with tempfile.TemporaryDirectory(prefix=f"{names.PREFIX}-hadoop-") as scratch:
        return Cluster(_own_conf(str(row["conf"])), _own_jars(str(row["lib"])), Path(scratch)).remove(
            directory
        )


def _own_conf(recorded: str) -> Path:
    """The configuration that this user's environment names, if it is the one that the row tells of: such a directory names
    programs. Raises HostFailed."""
    own = Path(os.environ.get(CONF) or USUAL_CONF).resolve()
    if Path(recorded).resolve() != own:
        raise HostFailed(
            f"the directory is on the cluster of {recorded}, and {CONF} is {os.environ.get(CONF) or 'not set'}; "
            "if that configuration is yours, set it",
            hint=f"export {CONF}={recorded}",
        )
    return own


def _own_jars(recorded: str) -> Path:
    """Jars that contend itself has fetched for this user: their code is run. Raises HostFailed."""
    lib = Path(recorded).resolve()
    kept = state.cache() / "workloads"
    if lib.parent != kept.resolve() or not lib.name.startswith("hadoop-client-"):
        raise HostFailed(
            f"{recorded} is not where contend keeps Hadoop's jars ({kept})", hint="set XDG_CACHE_HOME"
        )
    if why := ownership.why_changeable(lib):
        raise HostFailed(f"Hadoop's jars are not yours alone: {why}", hint=f"chmod go-w {lib}")
    return lib


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"exception|error|refused|denied", line, re.IGNORECASE)]
    return f"it said: {(errors or lines or ['nothing'])[-1].strip()[:240]}"


def _tasks_cpu_s(text: str) -> float | None:
    """CPU seconds of all jobs that a client's output reports; None where it reports none."""
    times_ms = re.findall(r"CPU time spent \(ms\)=(\d+)", text)
    return sum(int(value) for value in times_ms) / 1e3 if times_ms else None
