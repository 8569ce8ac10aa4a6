"""Options of the two ends of an RPC."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass

URL = "CONTEND_TRANSPORT_URL"
"""The environment variable that holds the broker's URL with its password, for ends by libraries and from users."""


@dataclass(frozen=True, slots=True)
class End:
    """One end. library: oslo (oslo.messaging), native (contend's driver). semantics: of the native one, oslo or bare.

    serialiser: writes what goes over the wire; with `envelope` its text is inside of JSON once more. executor: threads or
    greenlets. payloads: file with a JSON array of the calls' arguments, sent in turn. host: of several in the URL, the one
    the native driver tries first. reconnect: a connection that breaks is opened again (oslo.messaging's always are, and
    then what could not be published is tried again, as services have it by default). keep_calls: both ends remember each
    call by its number.
    """

    role: str
    library: str
    exchange: str
    topic: str
    server: str
    payloads: str = ""
    answer_bytes: int = 300
    semantics: str = "oslo"
    envelope: bool = True
    serialiser: str = "json"
    executor: str = "threads"
    cast: bool = False
    quorum: bool = False
    callers: int = 10
    timeout_s: float = 60.0
    host: int = 0
    reconnect: bool = False
    keep_calls: bool = False

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> End:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Phase:
    """One load. rate: calls a second, sent when due whatever was answered; 0: each caller sends as soon as it can.
    poisson: calls come independently of each other, else evenly. calls: what became of each is told."""

    seconds: float
    rate: float = 0.0
    seed: int = 0
    drain_s: float = 10.0
    poisson: bool = True
    calls: bool = False

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Phase:
        return cls(**json.loads(text))
