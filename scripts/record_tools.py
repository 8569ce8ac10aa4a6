"""Record what other tools really write, for the tests that hold made-up files and stand-ins to it.

    scripts/record_tools.py jmeter k6        needs Java and Maven; Go

Each is the real thing, got by its ordinary client (Maven, Go) and asked once, on loopback. What it wrote goes into
tests/data/recorded, with its version and how it was recorded; nothing there is edited by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "tests/data/recorded"
JMETER = "5.6.3"
K6 = "v0.57.0"

POM = """\
<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version><dependencies>
{dependencies}
</dependencies></project>
"""
DEPENDENCY = (
    "<dependency><groupId>org.apache.jmeter</groupId><artifactId>ApacheJMeter{name}</artifactId>"
    "<version>{version}</version></dependency>"
)
# Two users, five requests each; every other request of a user is refused by the server.
PLAN = """\
<?xml version="1.0" encoding="UTF-8"?>
<jmeterTestPlan version="1.2" properties="5.0" jmeter="5.6.3"><hashTree>
<TestPlan guiclass="TestPlanGui" testclass="TestPlan" testname="plan"/>
<hashTree>
<ThreadGroup guiclass="ThreadGroupGui" testclass="ThreadGroup" testname="users">
<elementProp name="ThreadGroup.main_controller" elementType="LoopController">
<boolProp name="LoopController.continue_forever">false</boolProp><stringProp name="LoopController.loops">5</stringProp>
</elementProp>
<stringProp name="ThreadGroup.num_threads">2</stringProp><stringProp name="ThreadGroup.ramp_time">0</stringProp>
<stringProp name="ThreadGroup.on_sample_error">continue</stringProp>
</ThreadGroup>
<hashTree>
{samplers}
</hashTree></hashTree></hashTree></jmeterTestPlan>
"""
SAMPLER = """\
<HTTPSamplerProxy guiclass="HttpTestSampleGui" testclass="HTTPSamplerProxy" testname="{label}">
<elementProp name="HTTPsampler.Arguments" elementType="Arguments"><collectionProp name="Arguments.arguments"/></elementProp>
<stringProp name="HTTPSampler.domain">127.0.0.1</stringProp><stringProp name="HTTPSampler.port">{port}</stringProp>
<stringProp name="HTTPSampler.path">{path}</stringProp><stringProp name="HTTPSampler.method">GET</stringProp>
</HTTPSamplerProxy><hashTree/>
"""
K6_SCRIPT = """\
import http from "k6/http";
import {{ check }} from "k6";
export const options = {{ vus: 2, iterations: 10 }};
export default function () {{
  check(http.get("http://127.0.0.1:{port}/login"), {{ "is 200": (r) => r.status === 200 }});
  http.get("http://127.0.0.1:{port}/missing");
}}
"""
K6_NESTED = """
export function handleSummary(data) {{ return {{ "{file}": JSON.stringify(data) }}; }}
"""


@contextlib.contextmanager
def served() -> Iterator[int]:
    """A server on loopback: /login is there, all else is not."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"here" if self.path == "/login" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def call(*words: str, **options: object) -> None:
    subprocess.run(words, check=True, **options)  # type: ignore[call-overload]


def about(name: str, version: str, how: str) -> None:
    """Add to what says of each recording what it is of."""
    file = RECORDED / "about.json"
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[name] = {"version": version, "recorded_by": f"scripts/record_tools.py {name}", "how": how}
    file.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")


def jmeter(place: Path) -> None:
    names = ("_core", "_http", "_config", "")
    dependencies = "\n".join(DEPENDENCY.format(name=name, version=JMETER) for name in names)
    (place / "pom.xml").write_text(POM.format(dependencies=dependencies))
    (place / "home/bin").mkdir(parents=True)
    call("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=home/lib", cwd=place)
    home = place / "home"
    with zipfile.ZipFile(home / f"lib/ApacheJMeter_config-{JMETER}.jar") as packed:
        packed.extractall(home, [name for name in packed.namelist() if name.startswith("bin/")])
    (home / "lib/ext").mkdir()
    for jar in home.glob("lib/ApacheJMeter_*.jar"):  # where it looks for its own functions
        shutil.copy(jar, home / "lib/ext")
    with served() as port:
        samplers = [SAMPLER.format(label=of, port=port, path=f"/{of}") for of in ("login", "missing")]
        (place / "plan.jmx").write_text(PLAN.format(samplers="".join(samplers)))
        words = ["java", f"-Djmeter.home={home}", "-cp", f"{home}/lib/*", "org.apache.jmeter.NewDriver", "-n"]
        words += ["-t", str(place / "plan.jmx"), "-l", str(place / "results.jtl")]
        call(*words, cwd=place)
    shutil.copy(place / "results.jtl", RECORDED / "jmeter.jtl")
    about(
        "jmeter",
        JMETER,
        "Apache JMeter from Maven Central; two threads, five loops, a page that is there and one that is not",
    )


def k6(place: Path) -> None:
    binary = shutil.which("k6")
    if binary is None:
        call(
            "go",
            "install",
            f"go.k6.io/k6@{K6}",
            env={**os.environ, "GOBIN": str(place), "GOFLAGS": "-mod=mod"},
        )
        binary = str(place / "k6")
    quiet = {**os.environ, "K6_NO_USAGE_REPORT": "true"}
    with served() as port:
        script = place / "script.js"
        script.write_text(K6_SCRIPT.format(port=port))
        words = [
            binary,
            "run",
            "--quiet",
            "--out",
            f"csv={place}/results.csv",
            f"--summary-export={place}/summary.json",
        ]
        call(*words, str(script), env=quiet, stdout=subprocess.DEVNULL)
        script.write_text(K6_SCRIPT.format(port=port) + K6_NESTED.format(file=f"{place}/nested.json"))
        call(binary, "run", "--quiet", str(script), env=quiet, stdout=subprocess.DEVNULL)
    for made, kept in (
        ("results.csv", "k6.csv"),
        ("summary.json", "k6-summary.json"),
        ("nested.json", "k6-nested.json"),
    ):
        shutil.copy(place / made, RECORDED / kept)
    about(
        "k6",
        K6,
        "k6 by Go's module proxy; two users, ten iterations, a page that is there and one that is not",
    )


TOOLS = {"jmeter": jmeter, "k6": k6}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tools", nargs="+", choices=[*TOOLS])
    RECORDED.mkdir(parents=True, exist_ok=True)
    for name in parser.parse_args().tools:
        with tempfile.TemporaryDirectory(prefix="contend-record-") as place:
            TOOLS[name](Path(place))
        print(f"recorded {name}")


if __name__ == "__main__":
    main()
