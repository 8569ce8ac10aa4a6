"""Both ends by contend's native driver."""

from __future__ import annotations

import array
import json
import random
import sys
import threading
from pathlib import Path
from typing import Any

from contend import _native
from contend.errors import HostFailed
from contend.testbed.rpc import payloads
from contend.testbed.rpc.options import End, Phase

_OUTCOMES = ("unfinished", "ok", "refused", "broken", "timed_out")
# Outcomes that a wait counts of: unfinished, ok, timed out. A refusal is no answer.
_WAITED = (0, 1, 4)


class Driver:
    """The caller."""

    def __init__(self, end: End, url: str) -> None:
        arguments = json.loads(Path(end.payloads).read_text(encoding="utf-8"))
        self._end = end
        self._client = _native.RpcClient(
            url,
            exchange=end.exchange,
            topic=end.topic,
            payloads=[json.dumps(one).encode() for one in arguments],
            semantics=end.semantics,
            envelope=end.envelope,
            quorum=end.quorum,
            cast=end.cast,
            timeout_ns=round(end.timeout_s * 1e9),
            host=end.host,
            reconnect=end.reconnect,
        )
        self._sent = 0

    def names(self) -> list[str]:
        """The queue for replies, if there is one to be removed."""
        queue = self._client.reply_queue
        return [queue] if queue is not None and queue.startswith("reply_") else []

    def run(self, phase: Phase) -> dict[str, Any]:
        told = self._client.run(
            callers=self._end.callers,
            duration_ns=round(phase.seconds * 1e9),
            rate=phase.rate or None,
            poisson=phase.poisson,
            seed=phase.seed % 2**64,
            drain_ns=round(phase.drain_s * 1e9),
            keep_requests=bool(phase.rate),
        )
        if requests := told.pop("requests", None):
            told |= _waits(requests)
            if phase.calls:
                told["calls"] = _calls(requests, self._sent)
        self._sent += told["sent"]
        return told

    def close(self) -> None:
        self._client.close()


def _calls(requests: dict[str, bytes], first: int) -> list[list[Any]]:
    """Number, when due, when ended, and how, of each call; those that were never sent have no number of the service's."""
    columns = (array.array("Q", requests[name]) for name in ("intended_ns", "done_ns", "outcome"))
    return [
        [first + at, due, done, _OUTCOMES[how]]
        for at, (due, done, how) in enumerate(zip(*columns, strict=True))
    ]


def _waits(requests: dict[str, bytes]) -> dict[str, list[int]]:
    """How long each call waited from when it was due, and how late each was sent for which a caller was free."""
    due, sent, done, outcome, queued = (
        array.array("Q", requests[name])
        for name in ("intended_ns", "sent_ns", "done_ns", "outcome", "queued")
    )
    waited = [d - at for at, d, how in zip(due, done, outcome, strict=True) if how in _WAITED]
    late = [s - at for at, s, q in zip(due, sent, queued, strict=True) if not q]
    return {"waited_ns": waited, "late_ns": late}


class Service:
    """The simulated service, in a thread: the main one listens to who started it."""

    def __init__(self, end: End, url: str) -> None:
        answer = payloads.document(end.answer_bytes, random.Random(0))
        self._names = [end.topic, f"{end.topic}.{end.server}"]
        self._server = _native.RpcServer(
            url,
            exchange=end.exchange,
            topic=end.topic,
            server=end.server,
            answer=json.dumps(answer).encode(),
            semantics=end.semantics,
            envelope=end.envelope,
            quorum=end.quorum,
            host=end.host,
            reconnect=end.reconnect,
            keep_calls=end.keep_calls,
        )
        self._thread = threading.Thread(target=self._serve, name="service", daemon=True)
        self._thread.start()

    def names(self) -> list[str]:
        return self._names

    def _serve(self) -> None:
        try:
            self._server.serve()
        except HostFailed as error:
            print(f"the service ended: {error.message}", file=sys.stderr)

    def counts(self) -> dict[str, int]:
        return self._server.counts()

    def calls(self) -> list[int]:
        return list(array.array("Q", self._server.calls()))

    def take_time(self, seconds: float) -> None:
        self._server.work(round(seconds * 1e9))

    def close(self) -> None:
        self._server.close()
        self._thread.join()
