"""Record what other tools really write, for the tests that hold made-up files and stand-ins to it.

    scripts/record_tools.py jmeter k6        needs Java and Maven; Go
    scripts/record_tools.py openstack        needs OS_CLOUD and OS_CLIENT_CONFIG_FILE, as `testbed/openstack up` prints them

Each is the real thing, got by its ordinary client (Maven, Go) and asked once, on loopback. What it wrote goes into
tests/data/recorded, with its version and how it was recorded; nothing there is edited by hand.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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


Told = dict[str, Any]


class Cloud:
    """Asks a cloud by plain HTTP: what is recorded has been through no client of ours."""

    def __init__(self) -> None:
        import yaml

        text = Path(os.environ["OS_CLIENT_CONFIG_FILE"]).read_text(encoding="utf-8")
        auth = yaml.safe_load(text)["clouds"][os.environ["OS_CLOUD"]]["auth"]
        self.token, self.recorded = "", dict[str, Told]()
        self.ask("keystone", "GET", auth["auth_url"])
        domain = {"name": auth["user_domain_name"]}
        user = {"name": auth["username"], "password": auth["password"], "domain": domain}
        project = {"name": auth["project_name"], "domain": {"name": auth["project_domain_name"]}}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": {"user": user}},
                "scope": {"project": project},
            }
        }
        told, headers = self.ask("login", "POST", f"{auth['auth_url']}/auth/tokens", body)
        self.token = headers["X-Subject-Token"]
        self.urls = {
            service["type"]: next(
                e["url"] for e in service["endpoints"] if e["interface"] == "public"
            ).rstrip("/")
            for service in told["token"]["catalog"]
        }

    def ask(
        self, name: str, method: str, url: str, body: Any = None, version: str = "", *, token: bool = True
    ) -> tuple[Any, Mapping[str, str]]:
        """Record under `name`, unless it is "", what is answered."""
        headers = {"Content-Type": "application/json"}
        if token and self.token:
            headers["X-Auth-Token"] = self.token
        if version:
            headers["OpenStack-API-Version"] = version
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        opener = urllib.request.build_opener(_Plain)
        with opener.open(request, timeout=60) as answer:
            status, content, got = answer.status, answer.read(), dict(answer.headers.items())
        of_json = got.get("Content-Type", "").startswith("application/json")
        told = json.loads(content) if of_json and content else None
        if name:
            kept = sorted(key for key in map(str.lower, got) if key in HEADERS)
            self.recorded[name] = {"status": status, "headers": kept, "body": shape(told)}
        return told, got

    def until(self, url: str, one: str, wanted: str, version: str = "") -> None:
        """Wait until it has that status."""
        for _ in range(300):
            told, _ = self.ask("", "GET", url, version=version)
            if told[one]["status"] == wanted:
                return
            time.sleep(0.2)
        raise SystemExit(f"{url} never came to be {wanted}")


class _Plain(urllib.request.HTTPErrorProcessor):
    """Every answer is one, whatever its status."""

    def http_response(self, request: Any, response: Any) -> Any:
        return response

    https_response = http_response


HEADERS = frozenset({"x-subject-token", "content-type", "content-length", "location"})


def shape(value: Any) -> Any:
    """Of a JSON value its keys and kinds, of a list those of what is in it; no value, for these are a cloud's own."""
    if isinstance(value, dict):
        return {key: shape(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    kinds = {bool: "truth", int: "number", float: "number", str: "text", type(None): "nothing"}
    return kinds[type(value)]


def openstack(place: Path) -> None:
    """What keystone, glance, nova, cinder and neutron answer to what stand-ins are asked."""
    cloud = Cloud()
    compute, image, volume, network = (
        cloud.urls[name] for name in ("compute", "image", "block-storage", "network")
    )
    network, image = f"{network}/v2.0", f"{image}/v2"
    cloud.ask("image versions", "GET", image.removesuffix("/v2") + "/", token=False)
    cloud.ask("image versions by name", "GET", image.removesuffix("/v2") + "/versions", token=False)
    cloud.ask("image without a token", "GET", f"{image}/images", token=False)
    images, _ = cloud.ask("images", "GET", f"{image}/images")
    first = next(each for each in images["images"] if each["status"] == "active" and each["size"])
    cloud.ask("image", "GET", f"{image}/images/{first['id']}")
    cloud.ask("image data", "GET", f"{image}/images/{first['id']}/file")
    cloud.ask("image schema", "GET", f"{image}/schemas/image")
    cloud.ask("no image", "GET", f"{image}/images/{uuid.uuid4()}")
    cloud.ask("below v2", "GET", f"{image}/nothing")
    flavours, _ = cloud.ask("flavors", "GET", f"{compute}/flavors/detail")
    networks, _ = cloud.ask("networks", "GET", f"{network}/networks")
    types, _ = cloud.ask("volume types", "GET", f"{volume}/types")
    run = f"recorded-{uuid.uuid4().hex[:8]}"
    group, _ = cloud.ask(
        "make security-group",
        "POST",
        f"{network}/security-groups",
        {"security_group": {"name": run, "description": run}},
    )
    rule = {"security_group_id": group["security_group"]["id"], "direction": "ingress", "protocol": "tcp"}
    cloud.ask(
        "make security-group-rule", "POST", f"{network}/security-group-rules", {"security_group_rule": rule}
    )
    key = {"name": run, "public_key": "ssh-ed25519 " + base64.b64encode(_ed25519()).decode() + " recorded"}
    cloud.ask("make keypair", "POST", f"{compute}/os-keypairs", {"keypair": key})
    cloud.ask("keypairs", "GET", f"{compute}/os-keypairs")
    wanted = {
        "name": run,
        "imageRef": first["id"],
        "flavorRef": flavours["flavors"][0]["id"],
        "networks": [{"uuid": networks["networks"][0]["id"]}],
        "metadata": {"contend_run": run},
    }
    server, _ = cloud.ask("make server", "POST", f"{compute}/servers", {"server": wanted}, "compute 2.37")
    at = f"{compute}/servers/{server['server']['id']}"
    cloud.until(at, "server", "ACTIVE", "compute 2.37")
    cloud.ask("server", "GET", at, version="compute 2.37")
    cloud.ask("servers", "GET", f"{compute}/servers/detail", version="compute 2.37")
    cloud.ask("no server", "GET", f"{compute}/servers/{uuid.uuid4()}", version="compute 2.37")
    disk = {
        "size": 1,
        "name": run,
        "volume_type": types["volume_types"][0]["name"],
        "metadata": {"contend_run": run},
    }
    made, _ = cloud.ask("make volume", "POST", f"{volume}/volumes", {"volume": disk}, "volume 3.0")
    disk_at = f"{volume}/volumes/{made['volume']['id']}"
    cloud.until(disk_at, "volume", "available", "volume 3.0")
    cloud.ask("volume", "GET", disk_at, version="volume 3.0")
    cloud.ask("volumes", "GET", f"{volume}/volumes/detail", version="volume 3.0")
    attachment = {"volumeAttachment": {"volumeId": made["volume"]["id"]}}
    cloud.ask("attach volume", "POST", f"{at}/os-volume_attachments", attachment, "compute 2.37")
    cloud.until(disk_at, "volume", "in-use", "volume 3.0")
    cloud.ask("delete volume in use", "DELETE", disk_at, version="volume 3.0")
    cloud.ask("delete server", "DELETE", at, version="compute 2.37")
    cloud.until(disk_at, "volume", "available", "volume 3.0")
    cloud.ask("delete volume", "DELETE", disk_at, version="volume 3.0")
    cloud.ask("no volume", "GET", f"{volume}/volumes/{uuid.uuid4()}", version="volume 3.0")
    cloud.ask("delete keypair", "DELETE", f"{compute}/os-keypairs/{run}")
    cloud.ask("delete no keypair", "DELETE", f"{compute}/os-keypairs/{run}")
    cloud.ask("delete security-group", "DELETE", f"{network}/security-groups/{group['security_group']['id']}")
    (RECORDED / "openstack.json").write_text(json.dumps(cloud.recorded, indent=1) + "\n", encoding="utf-8")
    newest, _ = cloud.ask("", "GET", f"{compute}/")
    about(
        "openstack",
        f"compute API {newest['version']['version']}",
        "the test bed of testbed/openstack; of each answer its status, headers and form",
    )


def _ed25519() -> bytes:
    """A public key as SSH has it (RFC 8709, 4), of nobody."""
    fields = (b"ssh-ed25519", os.urandom(32))
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


TOOLS = {"jmeter": jmeter, "k6": k6, "openstack": openstack}


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
