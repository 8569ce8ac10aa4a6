"""`contend run image-download` on this host: clients beside each other, and downloads beside a victim."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.platforms.programs import find_command
from contend.workloads.install import is_here
from support.command_line import Home, rows
from support.floors import aes_s_per_gb, sha512_s_per_gb
from support.prerequisites import need

VARIANTS = [
    {"name": "curl", "parameters": {"client": "curl"}},
    {"name": "fetch", "parameters": {"client": "fetch"}},
    {
        "name": "fetch tls",
        "parameters": {"client": "fetch", "scheme": "https", "checksum": "sha512", "to": "file"},
    },
    {"name": "sdk", "parameters": {"client": "openstacksdk-stream", "scheme": "https", "checksum": "sha512"}},
    {"name": "two", "parameters": {"client": "reader", "at_once": 2}},
    {"name": "go", "parameters": {"client": "go", "scheme": "https", "checksum": "sha512", "to": "file"}},
    {
        "name": "reqwest",
        "parameters": {"client": "reqwest", "scheme": "https", "checksum": "sha512", "to": "file"},
    },
    {
        "name": "glanceclient",
        "parameters": {"client": "glanceclient", "scheme": "https", "checksum": "sha512"},
    },
]


@pytest.fixture(autouse=True)
def here() -> None:
    need(find_command("nginx"), "nginx")
    need(shutil.which("curl") and shutil.which("wget"), "curl and wget")
    need(is_here("contend-fetch"), "contend-fetch (make setup)")


def test_clients_beside_each_other(contend: Home, tmp_path: Path) -> None:
    text = {
        "study": "compare", "workload": "image-download", "parameters": {"size": "8M"}, "variants": VARIANTS,
        "measure": {"target": None, "blocks": 1, "pilot": 0},
    }  # fmt: skip
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(text))
    contend("run", str(file), timeout=800).fine()  # the first on a host builds reqwest
    run = contend.the_run()
    jsonschema.validate(json.loads((run / "findings.json").read_text()), analysis_schema())
    found = {row["cell"]: {m["name"]: m["value"] for m in row["metrics"]} for row in rows(run)}
    assert set(found) >= {"curl", "fetch", "fetch tls", "two"}
    assert ("go" in found) == is_here("go"), "it is built where a Go is, else left out"
    assert ("reqwest" in found) == is_here("cargo"), "likewise where a cargo is"
    assert ("glanceclient" in found) == is_here("module glanceclient")
    assert ("sdk" in found) == is_here("module openstack")
    for figures in found.values():
        assert figures["both_cpu"] == pytest.approx(figures["client_cpu"] + figures["server_cpu"])
        assert figures["memory"] > 1 << 20
    # Whoever verifies has hashed every byte, and whoever was sent them encrypted has decrypted them; so has the server
    # encrypted them. Other implementations than OpenSSL's may take less, but not half.
    hashing, aes = sha512_s_per_gb() / 2, aes_s_per_gb() / 2
    verified = {v["name"] for v in VARIANTS if "checksum" in v["parameters"]} & set(found)
    for name in verified:
        assert found[name]["client_cpu"] > hashing + aes, name
        assert found[name]["server_cpu"] > aes, name
    # The same program, which starts as it did, less what it does without.
    assert found["fetch tls"]["client_cpu"] - found["fetch"]["client_cpu"] > hashing + aes


def test_downloads_beside_a_victim(contend: Home, tmp_path: Path) -> None:
    text = {
        "study": "interference", "victims": ["tiny"], "placement": "same-host",
        "neighbours": [{"image-download": {"client": "reader", "size": "64M", "checksum": "sha512", "cpu_max": "60%"}}],
        "measure": {"target": None, "blocks": 1, "pilot": 0},
    }  # fmt: skip
    file = tmp_path / "beside.yaml"
    file.write_text(json.dumps(text))
    contend("run", str(file), timeout=400).fine()
    assert len(rows(contend.the_run())) >= 2
