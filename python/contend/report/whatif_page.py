"""The page of a prediction, or of one beside what was measured: the answer, before and after, whether to believe it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contend.contention.whatif.campaign import words_on_tests
from contend.contention.whatif.prediction import Whatif
from contend.contention.whatif.times import KEYS, Predicted
from contend.contention.whatif.verification import Verification
from contend.report.html import page
from contend.report.plotkit import Plot, bars_with_intervals, chart, quantity, ticks
from contend.report.theme import var
from contend.report.whatif_terminal import (
    NAMES,
    answer,
    change,
    checked,
    edited,
    inside,
    measured,
    predicted,
    signed,
    trust,
    verified,
)
from contend.units import duration_unit, format_duration

HEIGHT = 240

Bar = tuple[float, float | None, float | None]
"""Value, low and high, ns."""


def render_prediction(of: Whatif, again: str, check: str) -> str:
    """The page as text. again: the command that makes it; check: the one that compares what comes after the change."""
    plots, before = [], of.baseline.to_json()
    if of.gate.passed and (of.edits or of.fixes):
        best, then = (of.edits, of.predicted) if of.edits else (of.fixes[0].edits, of.fixes[0].predicted)
        bars = {key: ((before[key], None, None), _bar(then[key])) for key in KEYS}
        plots = [_plot(("recorded", "predicted"), bars, f"Before and after {edited(best)}", _UNMEASURED)]
    rows = [
        (NAMES[key], format_duration(before[key]), predicted(of.predicted[key]), change(of, key))
        for key in KEYS
    ]
    return _page(
        plots,
        question="What would change?" if of.edits else "What would be worth most?",
        kicker=trust(of),
        answer=answer(of),
        facts=[
            ("Storms", str(len(of.sources))),
            ("Jobs", f"{of.jobs:,}"),
            ("Replay is off by", f"{of.gate.self_replay_error * 100:.1f} %"),
        ],
        headers=("", "recorded", "predicted", "change"),
        rows=rows if of.gate.passed and of.edits else [],
        fixes=[
            (edited(fix.edits), fix.assumes, predicted(fix.predicted["median_ns"]),
             predicted(fix.predicted["makespan_ns"]), f"{fix.gain * 100:.1f} %")
            for fix in of.fixes
        ],
        # Refused, the answer is the reason.
        belief=[f"{checked(of)}.", f"These storms are {of.regime.kind}: {of.regime.why}."]
        + ([f"{words_on_tests()[0].upper()}{words_on_tests()[1:]}."] if of.method == "replay" else []),
        notes=of.notes,
        sources=of.sources,
        commands=[("Repeat it", again)]
        + ([("After the change, recorded as before", check)] if check and of.gate.passed else []),
    )  # fmt: skip


def render_verification(of: Verification, again: str) -> str:
    """The page as text: each time as it was predicted and as it was measured. again: the command that makes it."""
    bars = {
        one.key: (
            (one.predicted, one.low, one.high),
            (one.mean, *((min(one.measured), max(one.measured)) if len(one.measured) > 1 else (None, None))),
        )
        for one in of.compared
    }
    sentence = verified(of)
    return _page(
        [_plot(("predicted", "measured"), bars, "Predicted and measured", _MEASURED)] if bars else [],
        question="Did it come as predicted?",
        kicker=" ".join(of.edits) or "without edits",
        answer=f"{sentence[0].upper()}{sentence[1:]}.",
        facts=[("Storms measured", str(len(of.sources)))],
        headers=("", "predicted", "measured", "error", "inside"),
        rows=[
            (
                NAMES[one.key],
                predicted(Predicted(one.predicted, one.low, one.high)),
                measured(one),
                signed(one.error),
                inside(one),
            )
            for one in of.compared
        ],
        fixes=[],
        belief=[],
        notes=(),
        sources=of.sources,
        commands=[("Repeat it", again)],
    )


_COLOURS = {"recorded": "alone", "predicted": "c1", "measured": "c2"}
_UNMEASURED = (
    "Times of the recorded storms' jobs, and what they would be."
    " Dark lines are prediction intervals for the next storm."
)
_MEASURED = (
    "Times as predicted, with the prediction interval, and as measured, with the shortest and the longest of several storms."
    " The maximum is one job's: it is shown and not judged."
)


def _page(plots: Sequence[Plot], **values: Any) -> str:
    return page("whatif", plots, plots=plots, **values)


def _bar(of: Predicted) -> Bar:
    return of.value, of.low, of.high


def _plot(names: tuple[str, str], bars: Mapping[str, tuple[Bar, Bar]], title: str, caption: str) -> Plot:
    """Two bars for each time of a storm."""
    unit, size = duration_unit(round(max(_edges(bar for pair in bars.values() for bar in pair))))
    colours = {name: var(_COLOURS[name]) for name in names}
    values = [
        {
            "key": NAMES[key],
            "which": name,
            "v": value / size,
            **({} if low is None or high is None else {"low": low / size, "high": high / size}),
            "colour": colours[name],
            "say": f"{NAMES[key]}, {name}: {format_duration(value)}",
        }
        for key, pair in bars.items()
        for name, (value, low, high) in zip(names, pair, strict=True)
    ]
    most = max(_edges(bar for pair in bars.values() for bar in pair)) / size
    y = quantity("v", unit, ticks(5, [most]))
    layers = bars_with_intervals(("key", [NAMES[key] for key in bars]), ("which", names), y)
    return Plot("whatif", "before-after", title, caption, chart(HEIGHT, layers, values), colours, (), ())


def _edges(bars: Iterable[Bar]) -> list[float]:
    return [edge for bar in bars for edge in bar if edge is not None]
