"""A message that is sent here and received there: an arrow between two spans, across threads and processes."""

from __future__ import annotations

from contend._native import trace_flow


def sent(name: str, flow: int | str | None = None) -> int:
    """Say that a message leaves; returns the number of the flow, to be carried with the message.

    `flow` is what both sides know the message by: an int (its low 64 bits count) or a str such as a request's id;
    None makes one up.

    >>> from contend.trace import flow
    >>> flow.sent("rpc", 7)
    7
    """
    return trace_flow(name, flow, False)


def received(name: str, flow: int | str) -> int:
    """Say that a message has arrived, in the words of its sender.

    >>> from contend.trace import flow
    >>> flow.received("rpc", "req-1") == flow.sent("rpc", "req-1")
    True
    """
    return trace_flow(name, flow, True)
