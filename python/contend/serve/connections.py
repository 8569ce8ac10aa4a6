"""Many connections in one thread: whoever is slow holds a socket and some memory, and nobody else up.

A request is read whole before anything is done for it, and an answer is written as its reader takes it; only what lies
between, working the answer out, takes one of a few threads. Each of the three has a deadline. Where there are more
connections than are held, the one that has been at its request the longest goes: a request takes a millisecond to arrive,
and one of those that do not is the slowest.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus

from contend.serve.answers import COMMON, Answer, plain
from contend.serve.requests import MOST_BYTES, BadRequest, Request, answer_head, parse

REQUEST_S = 10.0  # for a request to arrive
ANSWER_S = 60.0  # for it to be worked out; what goes on beyond that is ready for whoever asks again
TAKE_S, LEAST_BYTES_S = (
    20.0,
    64 * 1024,
)  # for an answer to be taken: so long, and as this rate would need beside
LINGER_S = 1.0  # for what a client still sends: closing on it would take the answer's end from it
GRACE_S = 10.0  # for what is being answered, at the end
MOST_CONNECTIONS = 400  # held at once; a process may have 1,024 files open
AT_ONCE = 8  # answers that are worked out
MOST_QUEUED = 200  # that wait for it
_CHUNK = 1 << 18


class Connections:
    """Answers what comes to a listening socket by `respond`, which is called in threads."""

    def __init__(
        self, listening: socket.socket, respond: Callable[[Request], Answer], *, verbose: bool
    ) -> None:
        self._listening, self._respond, self._verbose = listening, respond, verbose
        self._workers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="answers")
        self._queued = 0
        self._reading: dict[asyncio.Task[None], None] = {}  # oldest first
        self._answering: dict[asyncio.Task[None], None] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._stopped, self._ended = False, threading.Event()

    def serve(self) -> None:
        """Serve until `stop`, from another thread; then finish what is being answered, for at most GRACE_S."""
        try:
            asyncio.run(self._serve())
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Take no more, and wait until what was taken has ended."""
        with self._lock:
            self._stopped = True
            loop, stop = self._loop, self._stop
            if loop is not None and stop is not None and not self._ended.is_set():
                with suppress(RuntimeError):  # it has just ended
                    loop.call_soon_threadsafe(stop.set)
        if loop is not None:
            self._ended.wait(3 * GRACE_S)

    def close(self) -> None:
        """Release the threads. One that still works on an answer nobody waits for is waited for when the process ends."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        with self._lock:
            if self._stopped:
                return
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(
            self._connected, sock=self._listening, limit=MOST_BYTES, backlog=256
        )
        await self._stop.wait()
        server.close()
        for task in self._reading:
            task.cancel()  # who asks nothing is let go
        if self._answering:
            await asyncio.wait(tuple(self._answering), timeout=GRACE_S)
        rest = (*self._reading, *self._answering)
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=GRACE_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._reading) + len(self._answering) >= MOST_CONNECTIONS:
            slowest = next(iter(self._reading), None) or next(iter(self._answering))
            slowest.cancel()
        self._reading[task] = None
        try:
            await self._one(reader, writer, task)
        except asyncio.CancelledError:
            writer.transport.abort()  # not raised on: this task is the connection, and ends with it
        except (OSError, TimeoutError):
            writer.transport.abort()
        except Exception as error:  # noqa: BLE001 - a mistake of ours ends one connection, not the server
            print(f"warning: a request failed: {error!r}", file=sys.stderr)
            writer.transport.abort()
        finally:
            self._reading.pop(task, None)
            self._answering.pop(task, None)
            writer.close()

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None]
    ) -> None:
        peer = writer.get_extra_info("peername")
        client = str(peer[0]) if peer else "-"
        request: Request | None = None
        try:
            async with asyncio.timeout(REQUEST_S):
                head = await _head(reader)
            if not head:
                return  # it was closed before it asked anything
            request = parse(head, client)
        except TimeoutError:
            answer = plain(HTTPStatus.REQUEST_TIMEOUT, f"No request came within {REQUEST_S:g} s.")
        except BadRequest as error:
            answer = plain(error.status, f"{error}.")
        else:
            self._reading.pop(task, None)
            self._answering[task] = None
            answer = await self._answer(request)
        if self._verbose:
            _log(request, client, answer.status)
        await _send(writer, answer, body=request is None or request.method != "HEAD")
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while await reader.read(_CHUNK):
                    pass

    async def _answer(self, request: Request) -> Answer:
        """Answer by `respond`, in a thread; or that there is too much to do."""
        if self._queued >= MOST_QUEUED:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests wait.", Retry_After="5")
        self._queued += 1
        working = self._workers.submit(self._respond, request)
        # Counted until it ends, also where nobody waits for it any more: its thread is taken.
        loop = asyncio.get_running_loop()
        working.add_done_callback(lambda _: _soon(loop, self._left))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await asyncio.shield(asyncio.wrap_future(working))
        except BaseException as error:
            working.add_done_callback(_dropped)
            working.cancel()
            if not isinstance(error, TimeoutError):
                raise
            why = f"This takes longer than {ANSWER_S:g} s. It goes on: ask again."
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, why, Retry_After="5")

    def _left(self) -> None:
        self._queued -= 1


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)


def _dropped(working: Future[Answer]) -> None:
    """Close the file of an answer that nobody takes."""
    if not working.cancelled() and working.exception() is None and (fd := working.result().file) >= 0:
        os.close(fd)


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Everything up to an empty line; empty where the connection ends before. Raises BadRequest for too much."""
    data = b""
    while b"\r\n\r\n" not in data and b"\n\n" not in data:
        if len(data) > MOST_BYTES:
            raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        chunk = await reader.read(MOST_BYTES)
        if not chunk:
            return b""
        data += chunk
    ends = [at + len(mark) for mark in (b"\r\n\r\n", b"\n\n") if (at := data.find(mark)) >= 0]
    return data[: min(ends)]


async def _send(writer: asyncio.StreamWriter, answer: Answer, *, body: bool) -> None:
    """As its reader takes it. Raises TimeoutError for one that takes it too slowly, OSError."""
    try:
        length = os.fstat(answer.file).st_size if answer.file >= 0 else len(answer.body)
        given = {"Content-Type": answer.content_type, "Content-Length": str(length)}
        given["Content-Security-Policy"] = answer.policy
        async with asyncio.timeout(TAKE_S + length / LEAST_BYTES_S):
            writer.write(answer_head(answer.status, {**COMMON, **given, **answer.headers}))
            if body and answer.file >= 0:
                await _send_file(writer, answer.file, length)
            elif body:
                writer.write(answer.body)
            writer.write_eof()
            # Drain returns when half is taken, which says nothing of the rest.
            writer.transport.set_write_buffer_limits(0)
            await writer.drain()
    finally:
        if answer.file >= 0:
            os.close(answer.file)


async def _send_file(writer: asyncio.StreamWriter, fd: int, length: int) -> None:
    """As many bytes as were announced, of a file that may grow or be cut meanwhile."""
    while length > 0:
        chunk = os.read(fd, min(length, _CHUNK))
        if not chunk:
            return
        writer.write(chunk)
        length -= len(chunk)
        await writer.drain()


def _log(request: Request | None, client: str, status: int) -> None:
    """Never the query, which may hold the token."""
    method, path = (request.method, request.path) if request is not None else ("-", "")
    line = f"{client} {method} {path} {status}"
    print("".join(c if c.isprintable() else "?" for c in line), file=sys.stderr, flush=True)
