"""Words of prove: sentences on what suspects cost, and what was done for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from contend.contention.alibi.words import short
from contend.document import Analysis
from contend.stats.estimate import Estimate
from contend.studies.prove.levels import HELD
from contend.studies.prove.result import COSTS, HELPS, Cost, Harm, Proved, Together
from contend.units import within

_FIRST = {COSTS: 0, HELPS: 1, "undecided": 2}


def answer(of: Proved, victim: str, matters: float, *, takes_cpu: bool) -> str:
    """A sentence on each suspect, those that cost most first, and on suspects that cost more or less together.

    takes_cpu: they were held back where they lost CPU time: one who lost none is not acquitted.
    """
    ranked = sorted(of.suspects, key=lambda cost: (_FIRST.get(cost.verdict, 3), -cost.value))
    lost_none = {harm.suspect for harm in of.held_back if takes_cpu and harm.lost_none}
    each = (
        no_loss(cost.suspect, victim, matters)
        if cost.verdict == "unaffected" and cost.suspect in lost_none
        else sentence(cost, victim, matters)
        for cost in ranked
    )
    joint = (together(one, victim) for one in of.together)
    return " ".join([*each, *filter(None, joint)])


def no_loss(suspect: str, victim: str, matters: float) -> str:
    """A sentence on a suspect that had as much of the CPU while it was held back: the victim competes with it for none.

    >>> no_loss("a", "b", 0.05)
    'a takes no CPU time from b that matters (within ±5 %).'
    """
    return f"{suspect} takes no CPU time from {victim} that matters ({within(matters)})."


def sentence(of: Cost, victim: str, matters: float) -> str:
    """A sentence on what a suspect costs."""
    spread = _spread(of)
    if of.verdict == COSTS:
        return f"{of.suspect} costs {victim} {percent(of.value)} % of {of.metric} ({spread})."
    if of.verdict == "unaffected":
        return f"{of.suspect} costs {victim} nothing that matters ({within(matters)})."
    if of.verdict == HELPS:
        return f"{victim} is worse off while {of.suspect} is held back: {_worse(of)}."
    return f"Undecided whether {of.suspect} costs {victim} anything ({spread})."


def together(of: Together, victim: str) -> str:
    """A sentence on suspects that cost more, or less, together than one by one; "" for others."""
    if not of.beyond.differs:
        return ""
    names = _listed(of.suspects)
    more = "more" if of.beyond.value > 1 else "less"
    return (
        f"Together {names} cost {victim} {percent(of.cost.value)} % ({_spread(of.cost)}), {more} than one by one"
        f" ({ratio(of.beyond)} times that)."
    )


def done(of: Proved, matters: float) -> Iterator[str]:
    """Lines on what was done: to each suspect, and what a pause left to the next trial."""
    for harm in of.held_back:
        yield f"{harm.suspect} was held back {harm.times} times, {seconds(harm.held_s)} in all{_lost(harm)}"
    if of.carried is not None:
        yield f"right after a pause the victim was {_carried(of.carried, matters)}"


def beside(analysis: Analysis) -> Iterator[str]:
    """Lines on what a reader must know beside the answer: a figure that tells more, and a host without time left."""
    of: Proved = analysis.result
    for cost in of.suspects:
        if cost.verdict == "undecided":
            others = (cell for cell in analysis.cells if cell.factors.get(HELD) == cost.suspect)
            for cell in others:
                if not cell.metric.primary and cell.estimate.verdict in ("lower", "higher"):
                    name = cell.metric.name
                    yield (
                        f"{name} with {cost.suspect} held back: {ratio(cell.estimate)} times that as it is;"
                        f" --figure {name} makes it the figure"
                    )
    for alibi in analysis.phase_alibis:
        if alibi.phase == "counted" and alibi.verdict not in ("idle", "unknown"):
            yield f"meanwhile on this host {short(alibi)}; contend watch shows who has it"


def seconds(value: float) -> str:
    """
    >>> seconds(4.25), seconds(83.2)
    ('4.2 s', '83 s')
    """
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def percent(part: float | None) -> str:
    """
    >>> percent(0.1834), percent(-0.02), percent(-0.0)
    ('18.3', '−2', '0')
    """
    text = f"{100 * (part or 0.0):.3g}".replace("-", "−")
    return "0" if text == "−0" else text


def ratio(of: Estimate) -> str:
    return f"{of.value:.2f}, {of.low:.2f}–{of.high:.2f}"


def _lost(of: Harm) -> str:
    """
    >>> _lost(Harm("a", 3, 6.0, 1.5)), _lost(Harm("a", 3, 6.0, -0.1)), _lost(Harm("a", 0, 0.0, None))
    (': it lost 1.5 s of CPU time', ': it lost no CPU time', '')
    """
    if of.lost_s is None:
        return ""
    return ": it lost no CPU time" if of.lost_none else f": it lost {seconds(of.lost_s)} of CPU time"


def _carried(of: Estimate, matters: float) -> str:
    if of.verdict == "unaffected":
        return f"as in other trials ({within(matters)}): nothing is carried over"
    if of.differs:
        return f"not yet as in other trials ({ratio(of)} times): a longer `settle` gives it time"
    return f"{ratio(of)} times as slow as in other trials: undecided whether anything is carried over"


def _spread(of: Cost) -> str:
    if of.low is None or of.high is None:
        return "no interval yet"
    # Where one of them is below nothing, a dash would be taken for its sign.
    return f"{percent(of.low)}{'–' if of.low >= 0 else ' to '}{percent(of.high)} %"


def _worse(of: Cost) -> str:
    """
    >>> _worse(Cost("a", "p99", -0.5, -0.75, -0.2, HELPS))
    'by its p99 it then takes 2.0 × as long (1.2–4.0)'
    """
    times = f"by its {of.metric} it then takes {1 / (1 + of.value):.1f} × as long"
    if of.low is None or of.high is None:
        return f"{times} (no interval yet)"
    return f"{times} ({1 / (1 + of.high):.1f}–{1 / (1 + of.low):.1f})"


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}"
