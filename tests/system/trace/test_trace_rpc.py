"""oslo.messaging between processes, over a real broker and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.report.trace_export import export_traces
from contend.store.trace_summary import summarise
from support.ctrace_events import FLOW_IN, FLOW_OUT, Event, Trace
from support.prerequisites import need
from support.rabbit import SERVER, broker
from support.trace_processor import query
from support.traced_program import begun, said, traced

PROGRAM = """
    import subprocess, sys, threading
    from oslo_config import cfg
    import oslo_messaging

    role, url = sys.argv[1:]
    conf = cfg.CONF
    conf([])
    transport = oslo_messaging.get_rpc_transport(conf, url=url)
    target = oslo_messaging.Target(topic="compute", exchange="nova", server="host-1")
    done = threading.Event()

    class Endpoint:
        def add(self, ctxt, password, more): return more + 1
        def note(self, ctxt, password): pass
        def fail(self, ctxt, password): raise ValueError(password)
        def finish(self, ctxt): done.set()

    def serve():
        server = oslo_messaging.get_rpc_server(transport, target, [Endpoint()], executor="threading")
        server.start()
        print("serving", flush=True)
        assert done.wait(40)
        server.stop(); server.wait()

    def ask():
        client = oslo_messaging.get_rpc_client(transport, target, timeout=20)
        for number in range(5): assert client.call({"token": "secret"}, "add", password="secret", more=number) == number + 1
        client.cast({}, "note", password="secret")
        try: client.call({}, "fail", password="secret")
        except Exception as error: assert "secret" in str(error)
        else: raise SystemExit("no error")
        client.cast({}, "finish")

    if role == "server":
        serve()
    elif url.startswith("fake:"):
        server = threading.Thread(target=serve); server.start()
        ask(); server.join()
    else:
        server = subprocess.Popen([sys.executable, __file__, "server", url], stdout=subprocess.PIPE, text=True)
        assert server.stdout.readline() == "serving\\n"
        ask()
        assert server.wait(30) == 0
    transport.cleanup()
"""
ASKED = {"rpc call add": 5, "rpc cast note": 1, "rpc call fail": 1, "rpc cast finish": 1}
SERVED = {"rpc serve add": 5, "rpc serve note": 1, "rpc serve fail": 1, "rpc serve finish": 1}
# From which span to which, between processes, by Perfetto's own parser.
ARROWS = """
    select a.name, b.name, count(*) from flow
    join slice o on slice_out = o.id join slice i on slice_in = i.id
    join slice a on a.id = o.parent_id join slice b on b.id = i.parent_id
    join thread_track ot on o.track_id = ot.id join thread sends on sends.utid = ot.utid
    join thread_track it on i.track_id = it.id join thread gets on gets.utid = it.utid
    where o.name = 'rpc' and sends.upid != gets.upid group by 1, 2 order by 1, 2
"""


def flows(told: Trace, kind: int) -> dict[object, Event]:
    return {event.args[""]: event for event in told.of(kind) if event.name == "rpc"}


def test_a_call_and_where_it_is_served(tmp_path: Path) -> None:
    """Without a broker: the driver that hands messages from thread to thread."""
    (told,) = traced(tmp_path, PROGRAM, arguments=("both", "fake://"))
    for name, count in {**ASKED, **SERVED}.items():
        assert len(begun(told, name)) == count, name
    digests = {call["arguments"] for call in begun(told, "rpc call add")}
    assert len(digests) == 5 and all(isinstance(digest, int) for digest in digests)
    (note,) = begun(told, "rpc cast note")
    assert note.pop("arguments") not in digests
    assert note == {"kind": "remote", "topic": "compute", "exchange": "nova", "server": "host-1"}
    assert begun(told, "rpc serve note") == [{"topic": "compute"}]
    assert "secret" not in said([told]) and "password" not in said([told])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> object:
    need(SERVER.exists(), "RabbitMQ: apt-get install rabbitmq-server")
    with broker(tmp_path_factory.mktemp("broker")) as url:
        yield url


def test_messages_between_processes(url: str, tmp_path: Path) -> None:
    client, server = traced(tmp_path, PROGRAM, arguments=("client", url))
    assert {name: len(begun(client, name)) for name in ASKED} == ASKED
    assert {name: len(begun(server, name)) for name in SERVED} == SERVED
    # Every message of one has come to the other, requests and the replies of calls; none before it was sent.
    for sender, receiver, count in ((client, server, 8), (server, client, 6)):
        sent, received = flows(sender, FLOW_OUT), flows(receiver, FLOW_IN)
        assert len(sent) == count and sent.keys() == received.keys()
        if sender.clock == receiver.clock == 1:  # ticks of one counter
            assert all(sent[key].ticks < received[key].ticks for key in sent)
    ids = {args["message"] for name in SERVED for args in begun(server, name)}
    assert len(ids) == 8
    assert len(begun(client, "rpc wait for the reply")) == len(begun(server, "rpc send reply")) == 6
    # Both serialisations of each message, and what they made; the envelope holds the message, escaped.
    for told, count in ((client, 8), (server, 6)):
        for what in ("message", "envelope"):
            sizes = [args["bytes"] for args in begun(told, f"rpc serialise {what}") if "bytes" in args]
            assert len(sizes) == count and all(isinstance(size, int) and size > 50 for size in sizes)
    assert (
        len(begun(server, "rpc deserialise envelope")) >= 8 <= len(begun(server, "rpc deserialise message"))
    )
    assert "secret" not in said([client, server]) and "guest" not in said([client, server])
    summary = summarise(tmp_path / "t")
    calls = {span.name: span.remote for span in summary.remote}
    assert {name: calls[name] for name in ASKED} == ASKED
    assert summary.counts["bad_records"] == summary.counts["cut"] == 0
    target = tmp_path / "trace.perfetto-trace"
    export_traces([tmp_path / "t"], "perfetto", target)
    (arrows,) = query(target.read_bytes(), ARROWS)
    assert arrows == [
        ("rpc call add", "rpc serve add", 5),
        ("rpc call fail", "rpc serve fail", 1),
        ("rpc cast finish", "rpc serve finish", 1),
        ("rpc cast note", "rpc serve note", 1),
        ("rpc send reply", "rpc wait for the reply", 6),
    ]
