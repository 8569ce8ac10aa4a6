"""Libraries that services are made of, in programs that know nothing of the tracer."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.contention.whatif.storms import open_storms
from contend.store.trace_summary import summarise
from support.ctrace_events import (
    FLOW_IN,
    FLOW_OUT,
    JOB_BEGIN,
    JOB_END,
    LOCK_ACQUIRED,
    LOCK_RELEASED,
    LOCK_WAIT,
)
from support.traced_program import begun, said, traced

LOCKS = """
    import subprocess, sys, threading, time
    from oslo_concurrency import lockutils
    lockutils.set_defaults(lock_path=".")
    rw = lockutils.ReaderWriterLock()  # imports eventlet, which must not come first in another thread

    @lockutils.synchronized("compute_resources")
    def claim():
        time.sleep(0.15)

    def fair():
        with lockutils.lock("quota", fair=True):
            time.sleep(0.15)

    def external():
        return lockutils.lock("image", external=True, lock_file_prefix="nova-")

    def contended(work):
        threads = [threading.Thread(target=work, name=f"{work.__name__}-{n}") for n in range(3)]
        [t.start() for t in threads]; [t.join() for t in threads]

    if len(sys.argv) > 1:
        print("asks", flush=True)
        with external(): pass
        sys.exit()
    with external():
        other = subprocess.Popen([sys.executable, __file__, "again"], stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"asks\\n"
        time.sleep(0.3)
    assert other.wait() == 0
    contended(claim); contended(fair)
    try:
        with lockutils.lock("busy"):
            other = lockutils.lock("busy", blocking=False)
            with other: raise SystemExit("it was free")
    except lockutils.AcquireLockFailedException: pass
    with rw.write_lock():
        with rw.read_lock(), rw.write_lock(): pass
"""


def test_locks_by_name_within_and_between_processes(tmp_path: Path) -> None:
    found = traced(tmp_path, LOCKS, "--include", "none")
    first, second = found
    names = {lock.name for lock in first.locks.values()}
    image = str(tmp_path / "nova-image")
    assert {"compute_resources", "quota", "image", "busy", "rw", image} <= names
    held = [event for event in first.of(LOCK_ACQUIRED) if event.name == "compute_resources"]
    assert len(held) == 3
    # Each of the others says who held it: a thread of claim, by its track.
    for name in ("compute_resources", "quota"):
        waits = [event for event in first.of(LOCK_WAIT) if event.name == name]
        holders = {first.tracks[wait.value].name for wait in waits}
        work = "claim" if name == "compute_resources" else "fair"
        assert len(waits) == 2 and holders <= {f"{work}-{n}" for n in range(3)}, waits
        assert [e.name for e in first.of(LOCK_RELEASED)].count(name) == 3
    (wait,) = (event for event in second.of(LOCK_WAIT) if event.name == image)
    assert wait.value == 0 and {event.name for event in second.of(LOCK_ACQUIRED)} >= {"image", image}
    # One lock, whichever process tells of it: no hold is cut by the other's, and the other is named.
    summary = summarise(tmp_path / "t")
    (shared,) = (lock for lock in summary.locks if lock.name == image)
    assert (shared.kind, shared.instances, shared.holds, shared.waits) == ("external", 1, 2, 1)
    assert summary.counts["overtaken"] == 0
    assert [holder.name for holder in shared.holders] == ["MainThread"]
    assert 0 < shared.wait_ns <= shared.max_hold_ns + 1e9


SQL = """
    import threading, time
    import sqlalchemy as sa
    from sqlalchemy import orm
    from contend import trace

    Base = orm.declarative_base()
    class Server(Base):
        __tablename__ = "servers"
        id = sa.Column(sa.Integer, primary_key=True)
        name = sa.Column(sa.String)
        a_long_name, another_long_name = sa.Column(sa.String), sa.Column(sa.String)
        ports = orm.relationship("Port")
    class Port(Base):
        __tablename__ = "ports"
        id = sa.Column(sa.Integer, primary_key=True)
        server = sa.Column(sa.ForeignKey("servers.id"))
        address = sa.Column(sa.String)

    engine = sa.create_engine("sqlite:///secret.db?timeout=7", poolclass=sa.pool.QueuePool, pool_size=1, max_overflow=0)
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all(Server(name=f"secret-{n}", ports=[Port(address="secret")]) for n in range(20))
        session.commit()
    with trace.span("list servers"), orm.Session(engine) as session:
        for server in session.query(Server).filter(Server.name != "secret"):
            assert len(server.ports) == 1
    with engine.connect() as connection:
        done = connection.execute(sa.text("UPDATE servers SET name = 'secret' WHERE id > 12"))
        assert done.rowcount == 8
        connection.rollback() if hasattr(connection, "rollback") else None
        try: connection.execute(sa.text("SELECT secret FROM nowhere"))
        except sa.exc.OperationalError: pass
        else: raise SystemExit("no error")
    def use():
        with engine.connect(): time.sleep(0.15)
    threads = [threading.Thread(target=use) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    engine.dispose()
    with engine.connect(): pass
"""


def test_statements_repeated_ones_and_the_pool(tmp_path: Path) -> None:
    (told,) = traced(tmp_path, SQL)
    (each,) = {span[1] for span in told.spans() if span[1].endswith(" FROM ports WHERE ? = ports.server")}
    assert len(begun(told, each)) == 20
    assert all(args["kind"] == "remote" for args in begun(told, each))
    (all_,) = begun(told, "SELECT … FROM servers WHERE servers.name != ?")
    assert "servers.id" in str(all_["statement"])
    (update,) = begun(told, "UPDATE servers SET name = ? WHERE id > ?")
    assert update["rows"] == 8
    assert begun(told, "COMMIT") and begun(told, "ROLLBACK")
    failed = [span for span in told.spans() if "FROM nowhere" in span[1]]
    assert len(failed) == 1 and failed[0][4] == 1
    everything = said([told]).replace("secret FROM nowhere", "").replace("/secret.db", "")
    assert "secret" not in everything and "timeout" not in everything
    pool = "connections to sqlite:///secret.db"
    waits = [event for event in told.of(LOCK_WAIT) if event.name == pool]
    taken = [event for event in told.of(LOCK_ACQUIRED) if event.name == pool]
    given = [event for event in told.of(LOCK_RELEASED) if event.name == pool]
    assert len(waits) == 2 and len(taken) == len(given) >= 7
    assert not any("Queue.not_" in event.name for event in told.of(LOCK_WAIT))
    summary = summarise(tmp_path / "t")
    row = summary.repeated[0]
    assert (row.parent, row.child, row.calls, row.remote) == ("list servers", each, 20, 20)
    assert next(span for span in summary.remote if span.name == each).remote == 20


HTTP = """
    import sys, threading, urllib.request, http.client
    from wsgiref.simple_server import make_server, WSGIRequestHandler
    import requests, urllib3

    closed = []
    class Body:
        def __iter__(self): return iter([b"a" * 10, b"b" * 5])
        def close(self): closed.append(1)

    def application(environ, start_response):
        if environ["PATH_INFO"] == "/fails": raise RuntimeError("secret")
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("201 Made", [("Content-Length", "15")])
        return Body()

    class Quiet(WSGIRequestHandler):
        def log_message(self, *args): pass

    class Silent:
        def write(self, text): pass
        def flush(self): pass

    sys.stderr, stderr = Silent(), sys.stderr
    server = make_server("127.0.0.1", 0, application, handler_class=Quiet)
    port = server.server_port
    thread = threading.Thread(target=server.serve_forever, name="server"); thread.start()
    url = f"http://127.0.0.1:{port}"
    assert urllib.request.urlopen(f"{url}/stdlib/17?token=secret").read() == b"a" * 10 + b"b" * 5
    direct = http.client.HTTPConnection("127.0.0.1", port)
    direct.request("PUT", "/direct", body=b"secret", headers={"X-Token": "secret"})
    assert direct.getresponse().read(); direct.close()
    pool = urllib3.PoolManager()
    assert pool.request("GET", f"{url}/urllib3/9a8b7c6d").status == 201
    answer = requests.post(f"{url}/requests", data="secret=1", params={"token": "secret"}, auth=("me", "secret"))
    assert (answer.status_code, answer.content) == (201, b"a" * 10 + b"b" * 5)
    assert requests.get(f"{url}/fails").status_code == 500
    server.shutdown(); thread.join(); sys.stderr = stderr
    assert len(closed) == 4, closed
    print(port)
"""


def test_http_on_both_sides(tmp_path: Path) -> None:
    (told,) = traced(tmp_path, HTTP)
    names = {span[1] for span in told.spans()}
    (port,) = {name.split(":")[1].split("/")[0] for name in names if name.startswith("HTTP GET 127.0.0.1:")}
    there = f"127.0.0.1:{port}"
    asked = {
        f"HTTP GET {there}/stdlib/*": {"status": 201, "received_bytes": 15},
        f"HTTP PUT {there}/direct": {"status": 201, "received_bytes": 15},
        f"HTTP GET {there}/urllib3/*": {"status": 201, "received_bytes": 15},
        f"HTTP POST {there}/requests": {"status": 201, "received_bytes": 15, "sent_bytes": 8},
        f"requests POST {there}/requests": {},
        f"requests GET {there}/fails": {},
    }
    for name, args in asked.items():
        remote = {"kind": "remote"} if name.startswith("HTTP") else {}
        calls = begun(told, name)
        # A body that http.client sent before is not known when its answer is asked for.
        digests = [call.pop("arguments", None) is not None for call in calls]
        assert digests == [bool(remote) and "PUT" not in name] and calls == [{**remote, **args}], name
    served = ["GET /stdlib/*", "PUT /direct", "GET /urllib3/*", "POST /requests", "GET /fails"]
    assert [job.name for job in told.of(JOB_BEGIN)] == served
    assert len(told.of(JOB_END)) == 5
    assert [begun(told, name) for name in served] == [[{"status": 201}]] * 4 + [[{"status": 500}]]
    out, received = (
        [event for event in told.of(kind) if event.name == "http"] for kind in (FLOW_OUT, FLOW_IN)
    )
    assert len(out) == len(received) == 5
    for sent, got in zip(out, received, strict=True):
        assert sent.args[""] == got.args[""] and sent.ticks < got.ticks
        assert told.tracks[got.track].name == "server"
    assert "secret" not in said([told]) and "token" not in said([told])


POOL = """
    import threading, time, urllib3
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    class Slow(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def do_GET(self):
            time.sleep(0.15)
            self.send_response(204); self.end_headers()
        def log_message(self, *args): pass
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever).start()
    pool = urllib3.HTTPConnectionPool("127.0.0.1", server.server_port, maxsize=1, block=True)
    threads = [threading.Thread(target=pool.request, args=("GET", "/")) for _ in range(3)]
    [t.start() for t in threads]; [t.join() for t in threads]
    pool.close(); server.shutdown()
"""


def test_the_wait_for_a_connection_of_a_pool(tmp_path: Path) -> None:
    (told,) = traced(tmp_path, POOL)
    waits = [event.name for event in told.of(LOCK_WAIT) if event.name.startswith("connections to")]
    assert len(waits) >= 2


FLASK = """
    import sys, threading, time, urllib.request
    import flask
    app = flask.Flask("app")
    closed = []

    @app.get("/items/<int:number>")
    def item(number):
        def chunks():
            try:
                for at in range(3):
                    time.sleep(0.01); yield b"x"
            finally: closed.append(number)
        return flask.Response(chunks())

    kind = sys.argv[1]
    if kind == "werkzeug":
        import logging; logging.getLogger("werkzeug").setLevel(logging.ERROR)
        from werkzeug.serving import make_server
        server = make_server("127.0.0.1", 0, app, threaded=True)
        def stop():  # when they have done, which is after their clients have
            server.shutdown()
            for other in threading.enumerate():
                if "process_request" in other.name: other.join(10)
        port, run = server.server_port, server.serve_forever
    else:
        import waitress
        server = waitress.create_server(app, host="127.0.0.1", port=0, threads=2)
        port, run = server.effective_port, server.run
        stop = lambda: server.asyncore.close_all(server._map)
    thread = threading.Thread(target=run); thread.start()
    for number in (1, 2): assert urllib.request.urlopen(f"http://127.0.0.1:{port}/items/{number}").read() == b"xxx"
    try: urllib.request.urlopen(f"http://127.0.0.1:{port}/none")
    except urllib.error.HTTPError as error: assert error.code == 404
    if kind == "waitress": server.task_dispatcher.shutdown()  # when they have done
    stop(); thread.join(10)
    assert closed == [1, 2]
"""


@pytest.mark.parametrize("server", ["werkzeug", "waitress"])
def test_requests_are_jobs(server: str, tmp_path: Path) -> None:
    (told,) = traced(tmp_path, FLASK, arguments=(server,))
    assert sorted(job.name for job in told.of(JOB_BEGIN)) == ["GET /items/*"] * 2 + ["GET /none"]
    assert len(told.of(JOB_END)) == 3
    assert begun(told, "GET /items/*") == [{"status": 200}] * 2 and begun(told, "GET /none") == [
        {"status": 404}
    ]
    times = [span[3] - span[2] for span in told.spans() if span[1] == "GET /items/*"]
    seconds = [ticks / told.ticks_per_s for ticks in times]
    assert all(second >= 0.03 for second in seconds), "the answer's iteration is inside"
    out, received = ({e.args[""] for e in told.of(kind) if e.name == "http"} for kind in (FLOW_OUT, FLOW_IN))
    assert len(out) == 3 and out == received
    (source,) = open_storms([tmp_path / "t"])
    assert not [doubt for doubt in source.storm.recorded()["doubts"] if doubt["kind"] == "condition"]


GUNICORN = """
    import os, signal, socket, subprocess, sys, time, urllib.request
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0)); port = probe.getsockname()[1]
    open("service.py", "w").write("def app(environ, start_response):\\n"
        "    start_response('200 OK', [('Content-Length', '2')]); return [b'ok']\\n")
    server = subprocess.Popen([sys.executable, "-m", "gunicorn", "-k", sys.argv[1], "--log-level", "error",
                               "-b", f"127.0.0.1:{port}", "service:app"])
    for _ in range(100):
        try: assert urllib.request.urlopen(f"http://127.0.0.1:{port}/ready/1").read() == b"ok"; break
        except OSError: time.sleep(0.1)
    server.send_signal(signal.SIGTERM)
    assert server.wait(20) == 0
"""


@pytest.mark.parametrize("worker", ["sync", "gthread"])
def test_gunicorn(worker: str, tmp_path: Path) -> None:
    found = traced(tmp_path, GUNICORN, arguments=(worker,))
    (serving,) = (told for told in found if told.of(JOB_BEGIN))
    assert [job.name for job in serving.of(JOB_BEGIN)] == ["GET /ready/*"]
    assert begun(serving, "GET /ready/*") == [{"status": 200}]
    assert len([event for event in serving.of(FLOW_IN) if event.name == "http"]) == 1


GREEN = """
    import warnings; warnings.simplefilter("ignore")
    import eventlet
    eventlet.monkey_patch()
    import eventlet.wsgi, requests, time
    from oslo_concurrency import lockutils
    lockutils.set_defaults(lock_path=".")

    @lockutils.synchronized("green", external=True, fair=True)
    def work(): time.sleep(0.01)

    closed = []
    class Body:
        def __iter__(self):
            for _ in range(3): time.sleep(0.005); yield b"x"
        def close(self): closed.append(1)

    def application(environ, start_response):
        work()
        start_response("202 Accepted", [("Content-Length", "3")])
        return Body()

    socket = eventlet.listen(("127.0.0.1", 0)); url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    server = eventlet.spawn(eventlet.wsgi.server, socket, application, log_output=False)
    get = lambda number: requests.get(f"{url}/items/{number}").content
    assert list(eventlet.GreenPool().imap(get, range(5))) == [b"xxx"] * 5
    server.kill()
    assert len(closed) == 5
"""


def test_the_same_in_greenlets(tmp_path: Path) -> None:
    (told,) = traced(tmp_path, GREEN)
    assert begun(told, "GET /items/*") == [{"status": 202}] * 5
    assert len(told.of(JOB_BEGIN)) == len(told.of(JOB_END)) == 5
    serving = {span[0] for span in told.spans() if span[1] == "GET /items/*"}
    assert len(serving) >= 2 and all(told.tracks[track].kind == 2 for track in serving)
    waits = [event for event in told.of(LOCK_WAIT) if event.name == "green"]
    assert waits and {wait.value for wait in waits} <= serving, "held by who serves a request"
    for name in ("green", str(tmp_path / "green")):
        taken, given = (
            [e for e in told.of(kind) if e.name == name] for kind in (LOCK_ACQUIRED, LOCK_RELEASED)
        )
        assert len(taken) == len(given) == 5
