"""contend-rpc, the program: how it is told what to be, how it ends, and that nobody else reads the broker's password."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contend import __version__
from contend.errors import BadInput
from contend.testbed.rabbit import bed
from contend.workloads.drivers.rpc import native
from contend.workloads.drivers.rpc.options import URL, Phase
from support.command_line import wait_for
from support.rpc import calling, counts, load, queues, serving


def told(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([native.program(), *words], input=text, capture_output=True, text=True, timeout=60)


def test_it_is_of_contends_version() -> None:
    done = told("", "--version")
    assert (done.returncode, done.stdout) == (0, f"contend-rpc {__version__}\n")
    refused = told("", "rabbit://contend:secret@127.0.0.1/")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "usage:" in refused.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no order"),
        ("{", "not an order"),
        ('{"role": "judge", "url": ""}', "judge"),
        ('{"role": "driver", "url": "rabbit://h/", "caller": 1}', "`caller`"),
        ('{"role": "driver", "url": "redis://contend:secret@h/"}', "not RabbitMQ's"),
        ('{"role": "driver", "url": "rabbit://h/", "exchange": "x", "topic": "t"}', "'payloads'"),
        (
            '{"role": "service", "url": "rabbit://h/", "exchange": "x", "topic": "t", "server": "s"}',
            "'answer'",
        ),
        ('{"role": "service", "url": "rabbit://h/", "exchange": "x", "topic": "t"}', "no name"),
    ],
)
def test_an_order_that_cannot_be_is_one_clear_error(text: str, said: str) -> None:
    done = told(text)
    assert done.returncode == 2
    (line,) = done.stdout.splitlines()
    answer = json.loads(line)
    assert said in answer["error"]
    assert answer["hint"]
    assert answer["code"] == 2
    assert "secret" not in done.stdout + done.stderr


def test_a_file_may_hold_all_that_it_is_told(rabbit: bed.Bed, tmp_path: Path) -> None:
    """Order and load; it ends with the file."""
    (tmp_path / "payloads.json").write_text("[{}]")
    order = {"role": "driver", "url": rabbit.url(), "exchange": "file-x", "topic": "file"}
    order["payloads"] = str(tmp_path / "payloads.json")
    (tmp_path / "told").write_text(f"{json.dumps(order)}\n{Phase(0.2).to_json()}")
    with serving(rabbit.url(), "file"), (tmp_path / "told").open() as stdin:
        done = subprocess.run([native.program()], stdin=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    ready, loaded, over = map(json.loads, done.stdout.splitlines())
    assert loaded["ok"] == loaded["due"] > 0
    assert ready["queues"] == loaded["queues"] == over["queues"] != []
    assert queues(rabbit) == []


def test_the_password_is_on_no_command_line_and_in_no_environment(
    rabbit: bed.Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL, rabbit.url())  # as who names a broker elsewhere has it
    with serving(rabbit.url(), "hidden") as service, calling(rabbit.url(), "hidden") as driver:
        for end in (service, driver):
            for name in ("cmdline", "environ"):
                assert rabbit.password.encode() not in Path(f"/proc/{end.pid}/{name}").read_bytes()


def by_end_of_input(process: Any) -> int:
    process.stdin.close()
    return 0


def by_signal(process: Any) -> int:
    process.send_signal(signal.SIGTERM)
    return 130


@pytest.mark.parametrize("ended", [by_end_of_input, by_signal])
def test_amid_a_load_it_ends_at_once_and_removes_its_queues(
    rabbit: bed.Bed, ended: Callable[[Any], int]
) -> None:
    with calling(rabbit.url(), "amid") as driver, serving(rabbit.url(), "amid") as service:
        for end, line in ((driver, Phase(60.0).to_json()), (service, "counts")):
            end.tell(line)
        wait_for(lambda: counts(service)["handled"] > 0, "the first call", 20)
        assert len(queues(rabbit)) == 3
        for end in (driver, service):
            process = end._process
            began, code = time.monotonic(), ended(process)
            said = [json.loads(line) for line in process.stdout]
            assert process.wait(20) == code
            assert time.monotonic() - began < 5
            assert said[-1]["over"] == end.end.role
            assert said[-1]["queues"] == end.queues
            assert not any("due" in one for one in said), "a load that was cut short has no result"
        assert queues(rabbit) == []


def test_it_ends_with_whoever_started_it(rabbit: bed.Bed, tmp_path: Path) -> None:
    """Who is killed and says nothing more."""
    (tmp_path / "payloads.json").write_text("[{}]")
    program = (
        "import signal, sys\n"
        "from contend.workloads.drivers.rpc.options import End, Phase\n"
        "from contend.workloads.drivers.rpc.processes import Process\n"
        "url, ends = sys.stdin.readline().strip(), []\n"
        "for role in ('service', 'driver'):\n"
        "    ends.append(Process(End(role, 'native', 'orphan-x', 'orphan', 'one', sys.argv[1]), url, {}))\n"
        "    ends[-1].ready()\n"
        "ends[1].tell(Phase(60.0).to_json())\n"
        "print(*(end.pid for end in ends), flush=True)\n"
        "signal.pause()\n"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "payloads.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdin is not None and started.stdout is not None
    started.stdin.write(f"{rabbit.url()}\n")
    started.stdin.flush()
    pids = [int(word) for word in started.stdout.readline().split()]
    assert len(pids) == 2
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    started.kill()
    started.wait()
    started.stdout.close()
    started.stdin.close()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "the end of both", 20)
    assert queues(rabbit) == []


def test_a_service_that_ends_first_leaves_no_queue_of_its_driver(rabbit: bed.Bed) -> None:
    """Its exchange goes with it; the broker closes the connection of who goes on calling."""
    with calling(rabbit.url(), "first", timeout_s=0.3) as driver:
        with serving(rabbit.url(), "first") as service:
            driver.tell(Phase(60.0).to_json())
            wait_for(lambda: counts(service)["handled"] > 0, "the first call", 20)
        loaded = driver.hear(30)
        assert "NOT_FOUND" in loaded["last_error"]
        assert len(queues(rabbit)) == 1
    assert queues(rabbit) == []


def test_a_driver_that_hears_only_at_its_end_that_its_service_has_gone_leaves_no_queue(
    rabbit: bed.Bed,
) -> None:
    """It goes on calling, is told to end before it reads that the broker has closed its channel, and removes its queue by
    another."""
    with calling(rabbit.url(), "late") as driver:
        with serving(rabbit.url(), "late") as service:
            driver.tell(Phase(60.0, rate=500.0).to_json())
            wait_for(lambda: counts(service)["handled"] > 0, "the first call", 20)
            os.kill(driver.pid, signal.SIGSTOP)
        try:
            time.sleep(0.1)  # calls fall due
            driver._process.stdin.close()
        finally:
            os.kill(driver.pid, signal.SIGCONT)
        assert driver._process.wait(20) == 0
        assert queues(rabbit) == []


def test_an_error_amid_its_life_is_told_and_ends_it(rabbit: bed.Bed) -> None:
    with calling(rabbit.url(), "wrong") as driver:
        with pytest.raises(BadInput, match="not a load"):
            driver.ask("counts", 30)
        assert driver._process.wait(20) == 2
    assert queues(rabbit) == []


def test_who_removes_is_told_of_a_broker_that_is_not_there(rabbit: bed.Bed) -> None:
    url = f"rabbit://contend:secret@127.0.0.1:{os.getpid() % 100 + 1}/"
    with pytest.raises(BadInput, match="cannot connect") as raised:
        native.remove(url, ["some"], [])
    assert "secret" not in f"{raised.value.message} {raised.value.hint}"
    with serving(rabbit.url(), "removed") as service:
        native.remove(rabbit.url(), service.queues, [])
        assert queues(rabbit) == []


def test_a_load_after_another(rabbit: bed.Bed) -> None:
    """One connection serves all of them."""
    with serving(rabbit.url(), "more"), calling(rabbit.url(), "more") as driver:
        assert [load(driver, 0.1)["unfinished"] for _ in range(3)] == [0, 0, 0]
        assert len(driver.queues) == 1
