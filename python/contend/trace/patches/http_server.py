"""WSGI servers: each request is a job and a span, from its head to the last byte of the answer that the server takes.

What is wrapped is the server's own handling of one request, so that the application's iterable is iterated and closed
inside the span, by the server, as without us.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from contend._native import TraceRequest as Request
from contend._native import trace_on
from contend.trace.patches.http_names import known, served


def _request(method: object, path: object, client: object, port: object) -> Request:
    """One request, on record until its `end` is told; what is asked most does without this call."""
    return Request(known.get((method, path)) or served(str(method), str(path)), client, port)


def patch_waitress(module: ModuleType) -> None:
    task = module.WSGITask
    execute = task.execute

    @functools.wraps(execute)
    def on_record(self: Any) -> Any:
        if not trace_on():
            return execute(self)
        request, channel = self.request, self.channel
        client, port = getattr(channel, "addr", None), getattr(channel.server, "effective_port", None)
        method, path = request.command, request.path
        with Request(known.get((method, path)) or served(str(method), str(path)), client, port) as begun:
            result = execute(self)
            begun.end(self.status)
            return result

    task.execute = on_record


def patch_wsgiref(module: ModuleType) -> None:
    handler = module.BaseHandler
    run, close = handler.run, handler.close

    @functools.wraps(run)
    def on_record(self: Any, application: Any) -> Any:
        if not trace_on():
            return run(self, application)
        environ = getattr(self, "base_env", None) or self.os_environ
        client = getattr(getattr(self, "request_handler", None), "client_address", None)
        method, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
        with _request(method, path, client, environ.get("SERVER_PORT")) as begun:
            result = run(self, application)
            begun.end(getattr(self, "_contend_status", None))
            return result

    @functools.wraps(close)
    def on_close(self: Any) -> Any:
        self._contend_status = self.status  # it forgets it now
        return close(self)

    handler.run, handler.close = on_record, on_close


def patch_werkzeug(module: ModuleType) -> None:
    handler = module.WSGIRequestHandler
    run, respond = handler.run_wsgi, handler.send_response

    @functools.wraps(run)
    def on_record(self: Any) -> Any:
        if not trace_on():
            return run(self)
        self._contend_status = None
        address = self.server.server_address
        port = address[1] if isinstance(address, tuple) else None
        with _request(self.command, self.path, self.client_address, port) as begun:
            result = run(self)
            begun.end(self._contend_status)
            return result

    @functools.wraps(respond)
    def send_response(self: Any, code: Any, message: Any = None) -> Any:
        self._contend_status = code
        return respond(self, code, message)

    handler.run_wsgi, handler.send_response = on_record, send_response


def patch_gunicorn_response(module: ModuleType) -> None:
    response = module.Response
    start = response.start_response

    @functools.wraps(start)
    def start_response(self: Any, status: Any, *args: Any, **options: Any) -> Any:
        try:
            self.req._contend_status = status
        except AttributeError:  # a request of another kind takes none
            return start(self, status, *args, **options)
        return start(self, status, *args, **options)

    response.start_response = start_response


def patch_gunicorn_sync(module: ModuleType) -> None:
    """handle_request(listener, request, socket, address)."""
    worker = module.SyncWorker
    worker.handle_request = _gunicorn(
        worker.handle_request, 1, lambda args: args[3], lambda args: _port(args[0])
    )


def patch_gunicorn_threads(module: ModuleType) -> None:
    """handle_request(request, connection). Each call of Python's is a frame: one here, not one for every question."""
    worker = module.ThreadWorker
    handle = worker.handle_request

    @functools.wraps(handle)
    def on_record(self: Any, request: Any, connection: Any, *more: Any) -> Any:
        if not trace_on():
            return handle(self, request, connection, *more)
        # The connection has asked its listener when it came.
        server = getattr(connection, "server", None)
        port = server[1] if isinstance(server, tuple) and len(server) > 1 else _port(connection.sock)
        method, path = request.method, request.path
        name = known.get((method, path)) or served(str(method), str(path))
        with Request(name, connection.client, port) as begun:
            result = handle(self, request, connection, *more)
            begun.end(getattr(request, "_contend_status", None))
            return result

    worker.handle_request = on_record


def patch_gunicorn_async(module: ModuleType) -> None:
    """Greenlets: handle_request(listener's name, request, socket, address)."""
    worker = module.AsyncWorker
    worker.handle_request = _gunicorn(
        worker.handle_request, 1, lambda args: args[3], lambda args: _port(args[2])
    )


def _gunicorn(
    handle: Callable[..., Any], at: int, client_of: Callable[[Any], Any], port_of: Callable[[Any], Any]
) -> Callable[..., Any]:
    @functools.wraps(handle)
    def on_record(self: Any, *args: Any) -> Any:
        if not trace_on():
            return handle(self, *args)
        request = args[at]
        with _request(request.method, request.path, client_of(args), port_of(args)) as begun:
            result = handle(self, *args)
            begun.end(getattr(request, "_contend_status", None))
            return result

    return on_record


def _port(socket: Any) -> int | None:
    try:
        return int(socket.getsockname()[1])
    except (AttributeError, IndexError, OSError, TypeError, ValueError):
        return None  # of no port, or closed


def patch_eventlet(module: ModuleType) -> None:
    protocol = module.HttpProtocol
    handle = protocol.handle_one_response

    @functools.wraps(handle)
    def on_record(self: Any) -> Any:
        if not trace_on():
            return handle(self)
        application, said = self.application, [None]

        def listening(environ: Any, start_response: Any) -> Any:
            def start(status: Any, *args: Any, **options: Any) -> Any:
                said[0] = status
                return start_response(status, *args, **options)

            return application(environ, start)

        self.application = listening
        try:
            environ = self.environ
            method, path = environ.get("REQUEST_METHOD", ""), environ.get("PATH_INFO", "")
            with _request(method, path, self.client_address, environ.get("SERVER_PORT")) as begun:
                result = handle(self)
                begun.end(said[0])
                return result
        finally:
            self.application = application

    protocol.handle_one_response = on_record
