"""A component's cost in the storms of a cloud, as plain values: `context` of the analysis document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from contend.stats.estimate import Estimate
from contend.text.shape import Count, Limits, Named, Shape, computed

RPC, IMAGE = "rpc", "image-download"
TRACES, ROLE, CARRIED, STATED = "traces", "role", "carried over", "stated"
HOWS: Mapping[str, str] = {
    TRACES: "of the services' own traces of these storms",
    ROLE: "CPU time of that role's processes, read beside the storms",
    CARRIED: "how many, counted beside the storms, times what one costs in the run: another program's cost",
    STATED: "how many, as stated, times what one costs in the run: another program's cost",
}
AT_LEAST, AT_MOST = "at least", "at most"
Bound = Annotated[str, Limits(enum=["", AT_LEAST, AT_MOST])]


@dataclass(frozen=True, slots=True)
class Share(Shape):
    """One part's share, a fraction: of the CPU time of all roles, or of the time to ACTIVE."""

    what: str
    how: Annotated[str, Limits(enum=list(HOWS)), "; ".join(f"{how}: {about}" for how, about in HOWS.items())]
    bound: Bound
    known: Annotated[bool, "whether the run has this part's ratio of costs"]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Variant(Shape):
    """In the place of the baseline."""

    name: Annotated[str, Named("variant")]
    cost: Annotated[Estimate, "of the component as this cloud spends it, a ratio"]
    effect: Annotated[Estimate, "on the CPU time of all, a fraction; below 0: saves. Share × (cost - 1)"]
    path: Annotated[Estimate | None, "on the time to ACTIVE, a fraction; null where nothing tells"]


@dataclass(frozen=True, slots=True)
class StatedContext(Shape):
    """A component's cost in a whole of which somebody states its share."""

    schema_version: Literal[1] = field(default=1, init=False)
    run: str
    kind: Annotated[str, Named("component"), Limits(enum=[RPC, IMAGE])]
    baseline: Annotated[str, "the variant that the whole is taken to run"]
    share: Annotated[
        float, Limits(minimum=0, maximum=1), "of the component in the CPU time of the whole, as stated"
    ]
    blocks: Count
    variants: tuple[Variant, ...]


@dataclass(frozen=True)
class Context(Shape):
    """A component's cost in the storms of a cloud."""

    schema_version: Literal[1] = field(default=1, init=False)
    run: str
    of: Annotated[str, "the storm's run"]
    directory: Annotated[str, Named("place"), "its directory"]
    kind: Annotated[str, Named("component"), Limits(enum=[RPC, IMAGE])]
    baseline: Annotated[str, "the variant that the cloud is taken to run"]
    n: Annotated[Count, "servers of a storm: the largest size"]
    storms: Count
    blocks: Count
    shares: tuple[Share, ...]
    share: Annotated[Estimate, "of all parts whose ratio is known"]
    beside: Annotated[tuple[Share, ...], "the same by other ways"]
    path: Annotated[Share | None, "of the time to ACTIVE; null where nothing tells"]
    variants: tuple[Variant, ...]
    notes: Annotated[tuple[str, ...], "what a reader must know, a sentence each"]

    @property
    @computed(before="beside")
    def bound(self) -> Bound:
        """of share and effects: what all bounded parts agree on"""
        bounds = {share.bound for share in self.shares if share.bound and share.known}
        return bounds.pop() if len(bounds) == 1 else ""
