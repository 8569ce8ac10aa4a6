"""The effect of a cheaper or dearer component on a whole cloud: its cost times its share of the cloud's CPU time.

Of each variant of the run (see `Variant`), where the cloud is taken to do what the run's baseline does:

    effect on the CPU time of all = Σ share of a part × (cost by the variant / cost by the baseline - 1)

below 0 where the variant in the baseline's place saves. Parts are the two ends of a call and the broker, or the two ends of
a download; each has its own share in the storm and its own ratio in the run. After R. Pekowski's 10 % of an RPC, and the
objection to it that of 5 % of all CPU time this is 0.5 % of a deployment (openstack-dev, February 2013).

The time to ACTIVE is told apart, by the same formula with latency in the place of CPU time: a CPU second that is saved in
one process need not be on the way that a boot waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from contend.context.costs import Costs
from contend.context.storm import Boots
from contend.context.terms import (
    Term,
    cost,
    effect,
    effect_of,
    metrics_of,
    share,
    shares,
)
from contend.context.traces import InTraces, in_traces
from contend.document.context import (
    AT_LEAST,
    AT_MOST,
    CARRIED,
    ROLE,
    RPC,
    STATED,
    TRACES,
    Context,
    Share,
    StatedContext,
    Variant,
)
from contend.environment import same_host
from contend.errors import BadInput, ContendError
from contend.stats.signed_rank import smallest_n

Floats = npt.NDArray[np.float64]


def context(
    costs: Costs, boots: Boots, *, directory: str = "", calls: float | None = None, image: int | None = None
) -> Context:
    """Estimate what each variant of the run would change of the storm's cloud.

    directory: the storm's run, as shown. calls: RPCs of a boot, where nobody counted them; image: bytes that each boot
    downloads, beyond what it did in the storm. Raises BadInput where no share is known.
    """
    notes: list[str] = []
    traced = _traced(boots, notes) if costs.kind == RPC else None
    terms = _rpc(costs, boots, traced, calls) if costs.kind == RPC else _download(costs, boots, image)
    known = [term for term in terms if term.metric]
    way = _way(costs, boots, traced, calls, image)
    blocks = [len(costs.both(name, *metrics_of(known))) for name in costs.variants]
    if not min(blocks):
        raise BadInput(
            f"{costs.run} has no block with CPU time of {costs.baseline} and of each variant",
            hint="contend report RUN says what failed",
        )
    together = share(costs, known)
    if together.verdict == "too few":
        notes.append(
            f"There are no intervals: {boots.storms} storms and {min(blocks)} blocks, and"
            f" {smallest_n(costs.level)} of both are needed."
        )
    return Context(
        costs.run,
        boots.run,
        directory or boots.run,
        costs.kind,
        costs.baseline,
        boots.n,
        boots.storms,
        min(blocks),
        shares(costs, terms),
        together,
        _beside(costs, boots, terms, traced),
        None if way is None else shares(costs, [way])[0],
        tuple(_variant(costs, name, known, way) for name in costs.variants),
        (*_notes(costs, boots, terms, traced), *notes),
    )


def stated(costs: Costs, share: float) -> StatedContext:
    """Estimate what each variant of the run would change of a whole of whose CPU time the component is `share`.

    share: of all parts of a call (both ends and the broker) or of a download (both ends) that the run has, a fraction.
    Raises BadInput where it has none.
    """
    metrics = ("ends_cpu", "broker_cpu") if costs.kind == RPC else ("client_cpu", "server_cpu")
    known = [metric for metric in metrics if costs.has(metric)]
    blocks = [len(costs.both(name, *known)) for name in costs.variants] if known else [0]
    if not min(blocks):
        raise BadInput(
            f"{costs.run} has no block with CPU time of {costs.baseline} and of each variant",
            hint="contend report RUN says what failed",
        )
    terms = [Term(name, STATED, "", np.ones(min(blocks)), name, name) for name in known]
    return StatedContext(
        costs.run,
        costs.kind,
        costs.baseline,
        share,
        min(blocks),
        tuple(
            Variant(name, cost(costs, name, terms), effect_of(costs, name, terms, share), None)
            for name in costs.variants
        ),
    )


def _traced(boots: Boots, notes: list[str]) -> InTraces | None:
    """None where the storms were not traced; a note where traces cannot be read."""
    if not boots.traces or not all(
        (document.get("counted") or {}).get("storm_ns") for document in boots.documents
    ):
        return None
    try:
        return in_traces(boots)
    except ContendError as error:
        notes.append(f"The traces do not tell RPC's share: {error.message}.")
        return None


def _rpc(costs: Costs, boots: Boots, traced: InTraces | None, calls: float | None) -> list[Term]:
    many = _calls(costs, boots.messages, calls)
    ends, how = "client and service", STATED if calls is not None else CARRIED
    if traced is not None and traced.timed and calls is None:
        first = Term(ends, TRACES, AT_LEAST, traced.ends, "", "ends_cpu")
    elif many is not None:
        first = Term(ends, how, "", many / boots.cpu_s, "ends_cpu", "ends_cpu")
    elif traced is not None:
        first = Term(ends, TRACES, "", traced.ends, "", "ends_cpu")
    else:
        raise BadInput(
            f"{boots.run} does not tell RPC's share: nobody counted messages, and no traces do",
            hint="CONTEND_BROKER_URL (or parameters.traces) when the storm is run; or --calls N, RPCs of a boot",
        )
    broker = boots.roles.get("broker")
    tells = "broker_cpu" if costs.has("broker_cpu") else ""
    if broker is not None and broker.all():
        return [first, Term("broker", ROLE, "", broker / boots.cpu_s, "", tells)]
    if many is not None and tells:
        return [first, Term("broker", how, "", many / boots.cpu_s, tells, tells)]
    return [first]


def _download(costs: Costs, boots: Boots, image: int | None) -> list[Term]:
    if image is not None:
        many = image / 1e9 / boots.cpu_s
        return [
            Term(what, STATED, "", many, metric, metric, on_top=True)
            for what, metric in (("client", "client_cpu"), ("server", "server_cpu"))
            if costs.has(metric)
        ]
    glance = boots.roles.get("glance")
    if glance is None or not glance.any() or not costs.has("server_cpu"):
        raise BadInput(
            f"{boots.run} does not tell what downloads took: it has no CPU time of glance",
            hint="--image SIZE says what each boot downloads",
        )
    return [Term("server", ROLE, AT_MOST, glance / boots.cpu_s, "", "server_cpu")]


def _calls(costs: Costs, messages: Floats | None, stated: float | None) -> Floats | float | None:
    """RPCs of a boot: messages in pairs where a call is two."""
    if stated is not None:
        return stated
    return None if messages is None else messages / costs.messages


def _way(
    costs: Costs, boots: Boots, traced: InTraces | None, calls: float | None, image: int | None
) -> Term | None:
    """The share of the time to ACTIVE."""
    if costs.kind != RPC:
        if image is None or not costs.size or not costs.has("time"):
            return None
        return Term("download", STATED, "", image / costs.size / boots.took_s, "time", "time", on_top=True)
    if not costs.has("latency_p50"):
        return None
    if traced is not None and traced.path is not None:
        return Term("RPCs", TRACES, "" if traced.whole else AT_LEAST, traced.path, "", "latency_p50")
    many = _calls(costs, boots.own_messages, calls)
    if many is None:
        return None
    how = STATED if calls is not None else CARRIED
    return Term("RPCs", how, AT_MOST, many / boots.took_s, "latency_p50", "latency_p50")


def _beside(costs: Costs, boots: Boots, terms: Sequence[Term], traced: InTraces | None) -> tuple[Share, ...]:
    """The same by other ways, for the reader to compare."""
    others = []
    if traced is not None:
        if terms[0].how != TRACES:
            bound = AT_LEAST if traced.timed else ""
            others.append(Term("client and service", TRACES, bound, traced.ends, "", ""))
        elif (many := _calls(costs, boots.messages, None)) is not None:
            others.append(Term("client and service", CARRIED, "", many / boots.cpu_s, "ends_cpu", ""))
        if traced.first.all():
            others.append(Term("the serialisation that the envelope adds", TRACES, "", traced.first, "", ""))
    return tuple(of for term in others for of in shares(costs, [term]))


def _variant(costs: Costs, name: str, known: Sequence[Term], way: Term | None) -> Variant:
    path = None if way is None else effect(costs, name, [way])
    return Variant(name, cost(costs, name, known), effect(costs, name, known), path)


def _notes(costs: Costs, boots: Boots, terms: Sequence[Term], traced: InTraces | None) -> list[str]:
    """Notes that a reader must know, a sentence each."""
    notes = [
        f"The cloud is taken to do what {costs.baseline} does in {costs.run}; n = {boots.n}, its largest storms."
    ]
    carried = any(term.how in (CARRIED, STATED) for term in terms)
    if carried and costs.kind == RPC:
        pace = _pace(costs)
        notes.append(
            "What a call costs is carried over from another program, at saturation, so it is an estimate of another kind"
            f" than a measured share{pace}."
        )
    if any(term.how == CARRIED for term in terms) and costs.kind == RPC and costs.messages == 2:
        notes.append("A message counts as half a call.")
    if any(term.on_top for term in terms):
        notes.append(
            "What each boot downloads is taken to come on top of what boots took in the storm, in CPU time and in time to"
            " ACTIVE, with nothing beside it, over loopback."
        )
    if carried and not same_host(costs.environment, boots.environment):
        notes.append(
            "The two runs are of different hosts: CPU seconds of one are no CPU seconds of the other."
        )
    if any(term.bound == AT_MOST and term.what == "server" for term in terms):
        notes.append(
            "Glance does more than send images, and clients' costs are no part of it: --image SIZE has both ends."
        )
    unknown = [term.what for term in terms if not term.metric]
    if unknown:
        notes.append(f"The run does not tell what the {unknown[0]} spends: its share is left as it is.")
    if traced is not None and not traced.timed:
        notes.append(
            "The traces have no CPU times, or greenlets share them: their share is of time in spans, of which CPU time is a"
            " part."
        )
    if traced is not None and traced.why:
        notes.append(f"The traces tell no boot's way: {traced.why}.")
    if traced is not None and traced.jobs:
        notes.append(f"The way to ACTIVE is the critical path of {traced.jobs}.")
    return notes


def _pace(costs: Costs) -> str:
    """How much more a call costs when it comes alone."""
    if not costs.has("ends_cpu", "paced_cpu"):
        return ""
    base = costs.both(costs.baseline, "ends_cpu", "paced_cpu")
    times = float(np.exp(np.median(base[:, 1] - base[:, 0])))
    return f"; at its stated rate the run's calls took {times:.1f} times as much of both ends"
