"""RPC over TLS: a real broker with a certificate made for the test, by either library; and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.testbed.rabbit import bed, node
from contend.workloads.drivers.rpc import remote, trial
from support.rpc import broker, calling, counts, end, load, queues, remover, serving
from support.wire_servers import Authority


@dataclass(frozen=True)
class Secure:
    """A broker whose TLS port has a certificate of `authority` for 127.0.0.1, and wants one of its clients or not."""

    up: bed.Bed
    port: int
    authority: Path
    other: Path
    own: tuple[Path, Path]

    def url(self, port: int, **options: object) -> str:
        told = "&".join(f"{name}={value}" for name, value in options.items())
        return f"rabbit://{bed.USER}:{self.up.password}@127.0.0.1:{port}/?{told}"


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    place = tmp_path_factory.mktemp("tls")
    authorities = []
    for name in ("authority", "other"):
        (place / name).mkdir()
        authorities.append(Authority(place / name))
    certificate, key = authorities[0].certificate("127.0.0.1")
    (port,) = node.free_ports(1)
    settings = {
        "listeners.ssl.default": f"127.0.0.1:{port}",
        "ssl_options.cacertfile": authorities[0].file,
        "ssl_options.certfile": certificate,
        "ssl_options.keyfile": key,
        "ssl_options.verify": "verify_peer",
        "ssl_options.fail_if_no_peer_cert": "false",
    }
    more = [f"{name} = {value}" for name, value in settings.items()]
    with broker(place / "bed", more=more) as up:
        yield Secure(up, port, authorities[0].file, authorities[1].file, authorities[0].certificate("client"))


def test_calls_and_answers_longer_than_a_record(secure: Secure) -> None:
    url = secure.url(secure.port, ssl=1, ssl_ca_file=secure.authority)
    long = {"text": 'a "long" one ' * 40_000}
    with (
        serving(url, "tls", answer_bytes=300_000) as service,
        calling(url, "tls", payloads=[long, {}], callers=3) as driver,
    ):
        told = load(driver, 0.5)
        assert told["ok"] == told["due"] > 1
        assert counts(service)["malformed"] == 0
        # TCP's payload: the answers, and what TLS and AMQP put around them.
        assert told["bytes_received"] > told["ok"] * 300_000
    cert, key = secure.own
    mutual = secure.url(
        secure.port, ssl="true", ssl_ca_file=secure.authority, ssl_cert_file=cert, ssl_key_file=key
    )
    with serving(mutual, "mutual"), calling(mutual, "mutual", callers=1) as driver:
        assert load(driver, 0.1)["ok"] > 0
    assert queues(secure.up) == []


def test_casts_that_the_socket_does_not_take_are_waited_for(secure: Secure) -> None:
    url = secure.url(secure.port, ssl=1, ssl_ca_file=secure.authority)
    long = {"text": "x" * 500_000}
    with (
        serving(url, "flood") as service,
        calling(url, "flood", cast=True, payloads=[long], callers=20) as driver,
    ):
        told = load(driver, 0.25, drain_s=60)
        assert told["ok"] == told["due"] > 10
        assert counts(service)["handled"] > 0


def test_refusals_are_one_clear_error(secure: Secure) -> None:
    plain, tls = secure.up.ports[0], secure.port
    none = secure.other.with_name("none.pem")
    cert, _ = secure.own
    cases = {
        secure.url(tls, ssl=1, ssl_ca_file=secure.other): "its authority is not trusted here",
        secure.url(tls, ssl=1): "its authority is not trusted here",
        secure.url(tls, ssl=1, ssl_ca_file=secure.authority).replace(
            "127.0.0.1", "localhost"
        ): "another name",
        secure.url(plain, ssl=1, ssl_ca_file=secure.authority): "TLS with the broker",
        secure.url(tls): "no AMQP 0-9-1 broker",
        secure.url(tls, ssl=1, ssl_ca_file=none): "cannot be used",
        secure.url(tls, ssl=1, ssl_ca_file=secure.authority, ssl_cert_file=cert): "names one",
        secure.url(tls, ssl=1, ssl_ca_file=secure.authority).replace(
            secure.up.password, "no"
        ): "the user or the password",
    }
    for url, said in cases.items():
        with pytest.raises(BadInput) as raised, calling(url, "t"):
            pass
        text = f"{raised.value.message} {raised.value.hint}"
        assert said in text, url.replace(secure.up.password, "…")
        assert raised.value.hint
        assert secure.up.password not in text


@pytest.mark.parametrize("library", ["native", "oslo"])
def test_trials_over_tls_by_either_library(secure: Secure, tmp_path: Path, library: str) -> None:
    url = secure.url(secure.port, ssl=1, ssl_ca_file=secure.authority)
    remote.check(url)
    asked = trial.CallOptions(
        end("driver", library), end("service", library), seconds=0.4, warm_s=0.1, payload="1000"
    )
    told = trial.run(trial.Broker((url, url)), asked, tmp_path, remover(url))["saturation"]
    assert told["ok"] == told["sent"] == told["handled"] > 0
    # What either library sends, TLS included, the other end gets.
    wire = told["bytes_per_call"]
    assert wire["service_received"] == pytest.approx(wire["client_sent"], rel=0.25)
    assert queues(secure.up) == []
