"""oslo.messaging: calls and casts, where they are served, and the messages between; never arguments.

A message is known at both ends by the unique id that it carries; nothing is added to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from contend._native import TraceSpan as Span
from contend._native import trace_digest, trace_on
from contend.trace import flow
from contend.trace.patches.futures import limits
from contend.trace.patches.waiting import method

_UNIQUE_ID = "_unique_id"
_MESSAGE = "oslo.message"
# Of the call that is being made: the digest of its arguments, once they are plain.
_made: ContextVar[list[int] | None] = ContextVar("contend_rpc_made", default=None)


def patch_client(module: Any) -> None:
    """Trace calls and casts, by method, topic and exchange."""
    context = getattr(module, "_BaseCallContext", None) or module._CallContext
    context.call = _asks(context.call, "call")
    context.cast = _asks(context.cast, "cast")
    make = context._make_message

    @functools.wraps(make)
    def _make_message(*args: Any, **options: Any) -> Any:
        message = make(*args, **options)
        made = _made.get()
        if made is not None:
            # What goes over the wire: objects have been made plain by the program's serialiser.
            digest = trace_digest(message.get("args"))
            made.extend(() if digest is None else (digest,))
        return message

    context._make_message = _make_message


def _asks(original: Callable[..., Any], what: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def ask(self: Any, ctxt: Any, method: Any, **options: Any) -> Any:
        if not trace_on():
            return original(self, ctxt, method, **options)
        target = self.target
        attributes = {
            key: str(value)
            for key in ("topic", "exchange", "server")
            if (value := getattr(target, key, None)) is not None
        }
        if getattr(target, "fanout", None):
            attributes["fanout"] = "True"
        made: list[int] = []
        before = _made.set(made)
        try:
            with Span(f"rpc {what} {method}", kind="remote", **attributes) as span:
                result = original(self, ctxt, method, **options)
                span.end(**({"arguments": made[0]} if made else {}))
                return result
        finally:
            _made.reset(before)

    return ask


def patch_server(module: Any) -> None:
    """Trace what is served, from the message to its reply."""
    server = module.RPCServer
    original = server._process_incoming

    @functools.wraps(original)
    def process(self: Any, incoming: Any) -> Any:
        if not trace_on():
            return original(self, incoming)
        message = incoming[0]
        unique = getattr(message, "unique_id", None)
        attributes = {} if unique is None else {"message": str(unique)}
        with Span(f"rpc serve {message.message.get('method')}", topic=str(self._target.topic), **attributes):
            if unique is not None:
                flow.received("rpc", str(unique))
            return original(self, incoming)

    server._process_incoming = process


def patch_message_ids(module: Any) -> None:
    """Give every message an id when it is about to be sent."""
    original = module._add_unique_id

    @functools.wraps(original)
    def add(msg: Any) -> Any:
        result = original(msg)
        if trace_on():
            flow.sent("rpc", str(msg[_UNIQUE_ID]))
        return result

    module._add_unique_id = add


def patch_driver(module: Any) -> None:
    """Trace replies: where they are sent, waited for and received."""
    message, waiter = module.AMQPIncomingMessage, module.ReplyWaiter
    message._send_reply = _spanned(message._send_reply, "rpc send reply")
    waiter.wait = _spanned(waiter.wait, "rpc wait for the reply")
    original = waiter._process_reply

    @functools.wraps(original)
    def process(self: Any, data: Any) -> Any:
        unique = data.get(_UNIQUE_ID)
        if unique is not None:
            flow.received("rpc", str(unique))
        return original(self, data)

    waiter._process_reply = process


def _spanned(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        with Span(name):
            return original(*args, **options)

    return call


def patch_pool(module: Any) -> None:
    """Note how many connections a pool may have, on the condition that is waited for when all are out."""

    @method(module.Pool, "__init__")
    def _create(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(self: Any, /, *args: Any, **options: Any) -> None:  # noqa: N807
            original(self, *args, **options)
            condition, size = getattr(self, "_cond", None), getattr(self, "_max_size", None)
            limits(getattr(condition, "_waits", None), size)

        return __init__


def patch_envelope(module: Any) -> None:
    """Trace the first serialisation: the message as JSON, which becomes a text in the envelope."""
    write, read = module.serialize_msg, module.deserialize_msg

    @functools.wraps(write)
    def serialize_msg(raw_msg: Any, *args: Any, **options: Any) -> Any:
        with Span("rpc serialise message") as span:
            envelope = write(raw_msg, *args, **options)
            span.end(**_size(envelope))
            return envelope

    @functools.wraps(read)
    def deserialize_msg(msg: Any, *args: Any, **options: Any) -> Any:
        with Span("rpc deserialise message", **_size(msg)):
            return read(msg, *args, **options)

    module.serialize_msg, module.deserialize_msg = serialize_msg, deserialize_msg


def _size(envelope: Any) -> dict[str, int]:
    text = envelope.get(_MESSAGE) if isinstance(envelope, dict) else None
    return {"bytes": len(text)} if isinstance(text, (str, bytes)) else {}


def patch_kombu_sends(module: Any) -> None:
    """Trace the second serialisation: the envelope as JSON."""
    original = module.dumps

    @functools.wraps(original)
    def dumps(*args: Any, **options: Any) -> Any:
        with Span("rpc serialise envelope") as span:
            result = original(*args, **options)
            body = result[2]
            if isinstance(body, (str, bytes)):
                span.end(bytes=len(body))
            return result

    module.dumps = dumps


def patch_kombu_receives(module: Any) -> None:
    """Trace parsing of a received envelope."""
    original = module.loads

    @functools.wraps(original)
    def loads(data: Any, *args: Any, **options: Any) -> Any:
        attributes = {"bytes": len(data)} if isinstance(data, (str, bytes)) else {}
        with Span("rpc deserialise envelope", **attributes):
            return original(data, *args, **options)

    module.loads = loads
