"""Counts read before and after something: what is left of them without what goes on anyway."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from contend.clouds.counters import NS, Background, Count, Counters, Reading, each, messages
from contend.clouds.secrets import MOST_BYTES, find_url, login_of
from contend.errors import BadInput, ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.scenarios import parse
from contend.text.masking import has_url_password

SECRET = "s3cr3t"
URL = f"mysql://nova:{SECRET}@db:3306/"


def test_background_and_polls_are_left_out_and_the_doubt_is_told() -> None:
    quiet = Background(10 * NS, {"select": 20}, {"select": 4.0})
    found = each(Reading(0, {"select": 100}), Reading(5 * NS, {"select": 160}), 10, quiet, {"select": 30.0})
    # 60 counted, 10 of them in five seconds as anyhow, 30 by polls: 20 of ten boots. Variance 4 (5 + 25/10).
    low, high = 2 - 2 * 30**0.5 / 10, 2 + 2 * 30**0.5 / 10
    assert found == {"select": Count(2.0, pytest.approx(low), pytest.approx(high))}  # type: ignore[arg-type]


def test_a_counter_that_is_new_began_at_nothing() -> None:
    assert Reading(1, {"statements of heat": 3}).since(Reading(0, {})) == {"statements of heat": 3}


def test_a_background_is_the_same_after_it_was_kept() -> None:
    quiet = Background(10 * NS, {"select": 20}, {"select": 4.0}, 77)
    assert Background.from_json(quiet.to_json()) == quiet


def test_without_a_url_nothing_is_counted_and_it_is_said_why() -> None:
    counters = Counters.open(environ={})
    assert not counters
    assert counters.read().counts == {}
    assert "CONTEND_DATABASE_URL" in counters.absent["statements"]
    assert "CONTEND_BROKER_URL" in counters.absent["messages"]


@pytest.mark.parametrize(
    ("database", "broker", "said"),
    [("postgresql://db/", "", "postgresql"), ("", "amqp://mq/", "amqp"), ("nonsense", "", "no URL")],
)
def test_what_cannot_be_counted_is_refused(database: str, broker: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Counters.open(database, broker, environ={})


def test_messages_of_all_protocols_and_queues() -> None:
    text = (
        "# TYPE rabbitmq_global_messages_received_total counter\n"
        'rabbitmq_global_messages_received_total{protocol="amqp091"} 120\n'
        'rabbitmq_global_messages_received_total{protocol="amqp10"} 3\n'
        'rabbitmq_global_messages_delivered_total{protocol="amqp091",queue_type="rabbit_classic_queue"} 1.2e+2\n'
        'rabbitmq_global_messages_received_confirm_total{protocol="amqp091"} 7\n'
    )
    assert messages(text) == {"messages": 123, "deliveries": 120}


def test_a_password_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    for given, environ in ((f"file:{file}", {}), ("", {"V": URL}), ("", {"V": f"file:{file}"})):
        found = find_url(given, "V", environ)
        assert found is not None
        assert login_of(found) == ("nova", SECRET)
    assert find_url("", "V", {}) is None


def test_a_file_without_end_is_no_url(tmp_path: Path) -> None:
    long = tmp_path / "long"
    long.write_bytes(b"mysql://h/" + b"x" * MOST_BYTES)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for file in ("/dev/zero", str(long), str(fifo), str(tmp_path)):
        with pytest.raises(BadInput) as raised:
            find_url(f"file:{file}", "V", {})
        assert file in raised.value.message and raised.value.hint


@pytest.mark.parametrize(
    ("given", "environ"), [(URL, {}), ("", {"V": f"{SECRET}"}), ("", {"V": f"mysql://u:{SECRET}@h:port/"})]
)
def test_no_error_shows_a_password(given: str, environ: dict[str, str]) -> None:
    with pytest.raises(BadInput) as raised:
        find_url(given, "V", environ)
    assert SECRET not in raised.value.message + raised.value.hint


@pytest.mark.parametrize("settings", [(), (f"parameters.database_url={URL}",)])
def test_no_run_records_a_password(settings: tuple[str, ...]) -> None:
    text = "study: storm\n" + ("" if settings else f"parameters: {{database_url: '{URL}'}}")
    with pytest.raises(ScenarioError) as raised:
        parse(read_yaml(text, "mine.yaml", ScenarioError), settings)
    assert SECRET not in raised.value.message + raised.value.hint
    assert "password" in raised.value.message


def test_users_without_password_are_none() -> None:
    assert not has_url_password("amqp://guest@host/")
    assert has_url_password("see amqp://guest:x@host/")
