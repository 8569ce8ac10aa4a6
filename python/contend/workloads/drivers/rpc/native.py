"""Ends by contend's own driver: contend-rpc, a program of its own, which reads its role from a JSON document."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contend.errors import BadInput, CannotHonour, ContendError, HostFailed
from contend.platforms import programs
from contend.workloads.drivers.rpc import payloads
from contend.workloads.drivers.rpc.options import End

PROGRAM = "contend-rpc"
_REMOVE_S = 60.0


def program() -> Path:
    """Path of contend-rpc. Raises CannotHonour where there is none, as after a setup for the demo only."""
    path = programs.find(PROGRAM)
    if path is None:
        error = f"{PROGRAM}, contend's driver for RPC, is not installed"
    elif not programs.is_installed(PROGRAM):
        error = f"{path} is no program"
    else:
        return path
    raise CannotHonour(error, hint=programs.how_to_install([PROGRAM]))


def order(end: End, url: str) -> dict[str, Any]:
    """Write the document that contend-rpc reads, for one end: see crates/rpc/src/order.rs. It holds the broker's
    password."""
    document: dict[str, Any] = {"role": end.role, "url": url}
    document |= {name: getattr(end, name) for name in ("exchange", "topic", "semantics", "envelope")}
    document |= {name: getattr(end, name) for name in ("quorum", "host", "reconnect")}
    if end.role == "driver":
        own: tuple[str, ...] = ("payloads", "cast", "callers", "timeout_s")
    else:
        own = ("server", "keep_calls")
        document["answer"] = payloads.document(end.answer_bytes, random.Random(0))
    return document | {name: getattr(end, name) for name in own}


def remove(url: str, queues: Sequence[str], exchanges: Sequence[str]) -> None:
    """Remove queues and exchanges from the broker with their content; those that are not there are no error.

    Raises BadInput where the broker cannot be reached or refuses us, CannotHonour, HostFailed.
    """
    wanted = {"role": "remove", "url": url, "queues": list(queues), "exchanges": list(exchanges)}
    try:
        done = subprocess.run(
            [program()],
            input=json.dumps(wanted),
            capture_output=True,
            text=True,
            timeout=_REMOVE_S,
            check=False,
            start_new_session=True,  # a signal that ends a trial reaches all of it, and this is the end of it
        )
    except subprocess.TimeoutExpired as error:
        raise HostFailed(
            f"{PROGRAM} removed nothing within {_REMOVE_S:.0f} s", hint="does the broker still answer?"
        ) from error
    if done.returncode:
        try:
            line = json.loads(done.stdout)
        except ValueError:
            line = {"error": f"{PROGRAM} ended with {done.returncode}", "hint": done.stderr.strip()}
        raise error_of(line)


def error_of(document: Mapping[str, Any]) -> ContendError:
    """Make the error that an end has reported."""
    kind = BadInput if document.get("code") == BadInput.exit_code else HostFailed
    return kind(document["error"], hint=document["hint"])
