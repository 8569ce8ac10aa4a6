"""Options of a storm: every duration, size and switch. Times are milliseconds, as the names say."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_ON = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def _option(
    default: Any, about: str, *, least: float = 0, most: float = 1e6, choices: tuple[str, ...] = ()
) -> Any:
    return dataclasses.field(
        default=default, metadata={"about": about, "least": least, "most": most, "choices": choices}
    )


@dataclass(frozen=True)
class Storm:
    """One storm's options. `parse` reads them from NAME=VALUE words."""

    jobs: int = _option(20, "boots", least=1, most=1000)
    rate: float = _option(0.0, "boots a second, sent when due whatever has been answered; 0: all at once")
    seed: int = _option(1, "of the lengths of phases and of who runs where", most=2**31)
    computes: int = _option(1, "compute services; each is a host", least=1, most=16)
    builders: int = _option(64, "threads of a compute service that build", least=1, most=1000)
    image_ms: float = _option(300.0, "fetching the image: sleeps, outside any lock, ± 20 %")
    network_ms: float = _option(300.0, "allocating the network: the same")
    hold_across_rpc: bool = _option(
        True, "the claim's updates are sent while the lock of the resource tracker is held"
    )
    claim_ms: float = _option(2.0, "the accounting itself, under that lock")
    updates: int = _option(6, "updates of the instance in a claim", least=1, most=1000)
    noops: int = _option(3, "how many of them say what the one before has said", most=999)
    send_noops: bool = _option(True, "these are sent too")
    coalesce: int = _option(1, "updates of a claim that one call carries", least=1, most=1000)
    progress: int = _option(3, "updates outside the claim, between the phases", most=1000)
    hypervisor_lock: str = _option(
        "global", "one lock for all calls, or one for each instance", choices=("global", "instance")
    )
    hypervisor_calls: int = _option(40, "calls of a boot to the hypervisor", most=10_000)
    hypervisor_ms: float = _option(1.0, "length of each, under the lock")
    hypervisor_gap_ms: float = _option(0.3, "between two of them, outside the lock")
    queues: str = _option(
        "hashed",
        "updates wait for the worker that their key falls to, or for any",
        choices=("hashed", "shared"),
    )
    key: str = _option("host", "what the hash is of", choices=("host", "instance"))
    workers: int = _option(4, "threads of the conductor that write to the database", least=1, most=1000)
    update_ms: float = _option(4.0, "the database's work for a call")
    item_ms: float = _option(1.0, "and for each update in it")
    database: str = _option(
        "sleep", "the work sleeps that long, or sleeps and writes to SQLite", choices=("sleep", "sqlite")
    )

    def __post_init__(self) -> None:
        if self.noops >= self.updates:
            raise ValueError(f"noops={self.noops} must be less than updates={self.updates}")

    @classmethod
    def parse(cls, words: Iterable[str]) -> Storm:
        """Parse words like `jobs=20`. Raises ValueError with what is wrong.

        >>> Storm.parse(["jobs=8", "send_noops=false"]).send_noops
        False
        """
        values: dict[str, Any] = {}
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for word in words:
            name, equals, text = word.partition("=")
            if name not in fields:
                raise ValueError(f"no option is called '{name}'; known: {', '.join(fields)}")
            if not equals:
                raise ValueError(f"'{word}' is not NAME=VALUE")
            values[name] = _value(fields[name], text)
        return cls(**values)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Storm:
        return cls(**json.loads(text))


def _value(field: dataclasses.Field[Any], text: str) -> Any:
    name, metadata = field.name, field.metadata
    if isinstance(field.default, bool):
        if text.lower() not in _ON:
            raise ValueError(f"{name}={text} is neither true nor false")
        return _ON[text.lower()]
    if isinstance(field.default, str):
        if text not in metadata["choices"]:
            raise ValueError(f"{name}={text} is not one of: {', '.join(metadata['choices'])}")
        return text
    try:
        number = int(text) if isinstance(field.default, int) else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(field.default, int) else "a number"
        raise ValueError(f"{name}={text} is not {kind}") from None
    if not metadata["least"] <= number <= metadata["most"]:
        raise ValueError(f"{name}={text} is not from {metadata['least']:g} to {metadata['most']:g}")
    return number
