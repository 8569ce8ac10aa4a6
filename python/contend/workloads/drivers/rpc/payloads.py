"""Arguments of calls: documents like those that services send, of a given length or of the lengths of real traffic."""

from __future__ import annotations

import bisect
import json
import math
import random
from typing import Any

# Quantiles of the lengths, in bytes, of the 4,077 messages that booting and deleting a server made in a real cloud:
# median, p90 and maximum of the data of oslo.messaging's simulator (tools/messages_length.yaml of its repository).
# Minimum and p25 are ours; between them lengths grow evenly in their logarithm. The lengths are drawn, not copied.
_QUANTILES = ((0.0, 300), (0.25, 1200), (0.5, 2450), (0.9, 6480), (1.0, 11292))
_LEAST = 25


def boot_length(share: float) -> int:
    """The length of a boot's messages that a share of them does not exceed.

    >>> [boot_length(share) for share in (0.5, 0.9, 1.0)]
    [2450, 6480, 11292]
    """
    at = min(bisect.bisect_right([q for q, _ in _QUANTILES], share), len(_QUANTILES) - 1)
    (low, shorter), (high, longer) = _QUANTILES[at - 1], _QUANTILES[at]
    part = (share - low) / (high - low)
    return round(math.exp(math.log(shorter) * (1 - part) + math.log(longer) * part))


def envelope_free_length(arguments: str) -> int:
    """Length of the whole message of a call with these arguments, as JSON without an envelope.

    >>> envelope_free_length("{}")
    217
    """
    message: dict[str, Any] = {
        "method": "work",
        "args": {},
        "version": "1.0",
        "_msg_id": "0" * 32,
        "_reply_q": "reply_" + "0" * 32,
        "_timeout": None,
        "_unique_id": "0" * 32,
    }
    return len(json.dumps(message)) - len("{}") + len(arguments)


def documents(what: str, count: int, seed: int) -> list[dict[str, Any]]:
    """Arguments of `count` calls. what: `boot`, or the length of every message in bytes.

    The lengths of `boot` are spread evenly over its distribution, in a random order: each seed has the same ones.

    >>> [envelope_free_length(json.dumps(one)) for one in documents("1000", 2, seed=1)]
    [1000, 1000]
    """
    lengths = [boot_length((k + 0.5) / count) if what == "boot" else int(what) for k in range(count)]
    drawn = random.Random(f"lengths/{seed}")
    drawn.shuffle(lengths)
    own = envelope_free_length("")
    return [document(length - own, random.Random(f"{seed}/{k}")) for k, length in enumerate(lengths)]


def document(length: int, drawn: random.Random) -> dict[str, Any]:
    """A document whose JSON has that many bytes (25 at least): objects with ids, numbers, flags, times, lists.

    >>> len(json.dumps(document(2450, random.Random(1))))
    2450
    """
    length = max(length, _LEAST)
    items: list[dict[str, Any]] = []
    made: dict[str, Any] = {"items": items, "note": ""}
    have = len(json.dumps(made))
    while True:
        item = _item(drawn)
        more = len(json.dumps(item)) + (2 if items else 0)
        if have + more > length:
            break
        items.append(item)
        have += more
    made["note"] = "n" * (length - have)
    return made


def _item(drawn: random.Random) -> dict[str, Any]:
    def uuid() -> str:
        text = f"{drawn.getrandbits(128):032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    return {
        "uuid": uuid(),
        "host": f"compute-{drawn.randrange(1000)}",
        "memory_mb": drawn.choice((512, 2048, 8192)),
        "progress": drawn.random(),
        "locked": drawn.random() < 0.5,
        "task_state": drawn.choice((None, "spawning", "networking")),
        "created_at": f"2026-01-{drawn.randrange(1, 29):02d}T{drawn.randrange(24):02d}:00:00Z",
        "ports": [uuid() for _ in range(drawn.randrange(3))],
    }
