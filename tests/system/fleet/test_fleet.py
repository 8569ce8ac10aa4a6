"""`contend run --hosts` on hosts in network namespaces: killed, cut off, refused; nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.engine.deadline import longest_s
from contend.engine.rounds import BUDGET_SPENT
from support.command_line import Home, check_files, rows, wait_for
from support.fleet_lab import Lab, can, lab
from support.prerequisites import need

pytestmark = pytest.mark.one_of("strays")

TEAR_DOWN_S = 15  # hosts end their parts, over SSH; in no budget
SCENARIO = """\
study: interference
victims: [tiny]
neighbours: [burner]
measure: {{target: null, blocks: {blocks}, pilot: 1, seed: 7, design: pairs}}
hosts: {{names: [{hosts}], start: {start}, lost: {lost}}}
"""


def scenario(made: Lab, *, blocks: int = 4, start: str = "free", lost: str = "60s") -> str:
    text = SCENARIO.format(blocks=blocks, hosts=", ".join(made.hosts), start=start, lost=lost)
    (made.path / "mine.yaml").write_text(text, encoding="utf-8")
    return "mine.yaml"


def counted(run: Path, host: str = "") -> int:
    return sum(row["phase"] == "counted" and host in ("", row["host"]) for row in rows(run))


def whole(run: Path, hosts: Any, blocks: int) -> None:
    """Every counted trial of every host is there once."""
    found = rows(run)
    keys = Counter((row["host"], row["trial"], row["attempt"]) for row in found)
    assert max(keys.values()) == 1
    for host in hosts:
        own = json.loads((run / "hosts" / host / "plan.json").read_text())
        planned = {trial[0] for trial in own["trials"] if trial[2] == "counted"}
        finished = Counter(
            r["trial"] for r in found if r["host"] == host and r["phase"] == "counted" and r["status"] == "ok"
        )
        assert planned == set(finished) and max(finished.values()) == 1, host
        assert len(planned) == 3 * blocks


def test_killed_and_cut_off(tmp_path: Path) -> None:
    """One worker is killed and comes back, one host is cut off for good: said, kept, and gone on with later."""
    need(not can(), can())
    blocks = 5
    with lab(tmp_path, 3, offsets={"h2": 1000}) as made:
        # Far longer than a worker is silent while it starts beside other tests.
        words = made.run_words(scenario(made, blocks=blocks, start="together", lost="20s"))
        with made.start(*words) as process:
            wait_for(
                lambda: list(made.runs.glob("*/trials.ndjson")) or process.poll() is not None, "a row", 180
            )
            assert process.poll() is None, process.communicate()
            run = made.the_run()
            wait_for(lambda: all(counted(run, host) for host in made.hosts), "a counted row of each", 180)
            os.kill(made.hosts["h1"].worker(), signal.SIGKILL)
            made.hosts["h3"].link(up=False)
            _, err = process.communicate(timeout=400)
        assert process.returncode == 3, err
        assert "h1: back" in err and "h3: given up: lost for 20 s" in err
        assert "incomplete: h3:" in err and f"contend run --resume {run.relative_to(tmp_path)}" in err
        assert "Traceback" not in err
        whole(run, ["h1", "h2"], blocks)
        before = rows(run)

        findings = json.loads((run / "findings.json").read_text())
        jsonschema.validate(findings, analysis_schema())
        (line,) = findings["fleet"]["missing"]
        assert line.startswith("h3: ") and f"of {3 * blocks} trials" in line
        assert not findings["fleet"]["pooled"] and findings["cells"] == []
        offsets = {h["host"]: h["clock"]["start"] for h in findings["fleet"]["hosts"] if h["clock"]}
        for host, true_ns in (("h1", 0), ("h2", 1000 * 10**9), ("h3", 0)):
            assert abs(offsets[host]["offset_ns"] - true_ns) <= offsets[host]["bound_ns"], (
                "the injected offset is found"
            )
        assert {r["clock_offset"]["offset_ns"] for r in rows(run) if r["host"] == "h2"} == {
            offsets["h2"]["offset_ns"]
        }

        made.hosts["h3"].link(up=True)
        wait_for(lambda: not made.hosts["h3"].processes("contend.fleet.part"), "end of what was cut off", 60)
        resumed = made("run", "--resume", str(run))
        assert resumed.code == 0, resumed
        assert rows(run)[: len(before)] == before
        whole(run, made.hosts, blocks)
        check_files(run)
        assert made.left() == [] and made.parts() == []
        own = made("report", str(run / "hosts/h3"))
        assert own.code == 0 and "tiny" in own.out


def test_a_killed_coordinator_leaves_nothing_after_destroy(tmp_path: Path) -> None:
    need(not can(), can())
    with lab(tmp_path, 2) as made:
        with made.start(
            *made.run_words(scenario(made, blocks=200)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            wait_for(lambda: list(made.runs.glob("*/trials.ndjson")), "a row", 180)
            process.kill()
        run = made.the_run()
        assert made.left()
        said = made("destroy", str(run))
        assert said.code == 0 and "removed fleet" in said.out, said
        assert made.left() == []


def test_a_resumed_fleet_keeps_its_budget(tmp_path: Path) -> None:
    need(not can(), can())
    with lab(tmp_path, 2) as made:
        with made.start(*made.run_words(scenario(made, blocks=400)), stderr=subprocess.PIPE) as process:
            wait_for(lambda: list(made.runs.glob("*/trials.ndjson")), "a row", 180)
            run = made.the_run()
            wait_for(lambda: all(counted(run, host) for host in made.hosts), "a counted row of each", 180)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=120)
        before = counted(run)
        began_s = time.monotonic()
        said = made("run", "--resume", str(run), "--budget", "40s")
        took_s = time.monotonic() - began_s
        # 3: on some host they were too few for an interval.
        assert said.code in (0, 3) and "Traceback" not in said.err, said
        assert counted(run) > before
        events = [json.loads(line) for line in (run / "ledger.ndjson").read_text().splitlines()]
        last = max(n for n, event in enumerate(events) if event["event"] == "run-start")
        assert [e["stopped"] for e in events[last:] if e["event"] == "run-end"] == [BUDGET_SPENT]
        assert took_s <= longest_s(40) + TEAR_DOWN_S, said
        assert made.left() == []  # but for what --resume goes on with


def test_every_hosts_problem_at_once(tmp_path: Path) -> None:
    need(not can(), can())
    with lab(tmp_path, 3) as made:
        made.hosts["h1"].end()
        known = tmp_path / "keys/known"
        known.write_text(
            "\n".join(line for line in known.read_text().splitlines() if "h2" not in line) + "\n"
        )
        path = tmp_path / "hosts"
        path.write_text("h1\nh2\nh3\nno-such-host.invalid\n")
        words = ("--ssh-config", str(made.ssh_config))
        said = made("fleet", "start", "--hosts-file", "hosts", "--contend", "nocontend", *words)
        said.error(2, "4 of 4 hosts cannot take part: h1: cannot reach 'h1': SSH is refused")
        for problem in (
            "h2: the host key of 'h2' is not known",
            "h3: there is no 'nocontend' (install the same version there: pip install",
            "no-such-host.invalid: no host is called",
        ):
            assert problem in said.err, said
        assert made.left() == []
        missing = made(*made.run_words("noisy-neighbour", "--hosts", "h3", "--set", "victims=nosuch"))
        missing.error(2, "nosuch")
        (tmp_path / "bad.yaml").write_text(
            "study: compare\nvariants: [{name: a, command: frobnicate}, {name: b, command: 'true'}]\nhosts: [h3]\n"
        )
        made(*made.run_words("bad.yaml")).error(2, "h3: ", "frobnicate")
        assert made.left() == [] and not list(made.runs.glob("*"))


def refused_without_a_certificate(own: dict[str, Any]) -> None:
    """The scheduler hangs up on who shows none, and on who speaks no TLS."""
    address, port = own["address"].removeprefix("tls://").rsplit(":", 1)
    context = ssl.create_default_context(cadata=own["authority"])
    context.check_hostname = False
    with (
        socket.create_connection((address, int(port)), 10) as plain,
        pytest.raises((ssl.SSLError, ConnectionError)),
        context.wrap_socket(plain) as connection,
    ):
        connection.sendall(b"hello")
        while connection.recv(1000):
            pass
        raise ConnectionResetError
    with socket.create_connection((address, int(port)), 10) as plain:
        plain.sendall(b"hello, this is no TLS" * 10)
        with suppress(ConnectionResetError):
            while (said := plain.recv(1000)) != b"":
                assert b"ssl" not in said.lower() and len(said) < 10  # an alert, and nothing else


def test_without_its_certificate_nobody_joins(contend: Home) -> None:
    """A worker of another fleet, and one without TLS, are refused; the one with the fleet's own joins and leaves."""

    def folder(said: str) -> Path:
        return Path(
            next(w for line in said.splitlines() for w in line.split() if w.endswith("join/otherhost.json"))
        ).parents[1]

    first = contend("fleet", "start", "--by-hand", "otherhost", "--address", "127.0.0.1").fine()
    second = contend("fleet", "start", "--by-hand", "otherhost", "--address", "127.0.0.1").fine()
    own, other = (json.loads((folder(s.out) / "join/otherhost.json").read_text()) for s in (first, second))
    try:
        mixed = contend.path / "mixed.json"
        keys = ("authority", "certificate", "key")
        mixed.write_text(json.dumps(own | {key: other[key] for key in keys}))
        contend("fleet", "join", str(mixed), timeout=90).error(1, "did not take this worker")
        refused_without_a_certificate(own)
        status = contend("fleet", "status", "--json").json()
        assert all(fleet["hosts"] == {"otherhost": ""} for fleet in status["fleets"])
        right = contend.path / "right.json"
        right.write_text(json.dumps(own))
        contend("fleet", "join", str(right), "--background").fine()
        status = contend("fleet", "status", "--json").json()
        assert sorted(bool(fleet["hosts"]["otherhost"]) for fleet in status["fleets"]) == [False, True]
        contend("fleet", "stop", other["fleet"]).fine()
        run = contend("run", contend.scenario(blocks=1), "--hosts", "otherhost")
        assert run.code == 0, run
    finally:
        contend("fleet", "stop").fine()
    assert contend("fleet", "status").fine().out == "no fleet is up\n"
    wait_for(lambda: not list((contend.state / "contend").glob("joined/*")), "end of the worker")
