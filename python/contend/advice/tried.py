"""The choice of a finding for `contend try`, and its prediction beside what came out."""

from __future__ import annotations

from collections.abc import Sequence

from contend.advice.finding import Finding
from contend.errors import BadInput
from contend.stats.estimate import Estimate
from contend.units import format_times


def chosen(findings: Sequence[Finding], which: str, of: str) -> Finding:
    """Choose the finding that is meant: by its number or id; without either the only one that can be tried.

    Raises BadInput.
    """
    able = {number: name for number, f in _numbered(findings) if (name := _against(f))}
    if not able:
        hint = next((finding.verify for finding in findings if finding.verify), "contend prove VICTIM")
        raise BadInput(f"no finding of {of} has an advice that contend itself can follow", hint=hint)
    if not which and len(able) == 1:
        return findings[next(iter(able)) - 1]
    names = ", ".join(f"{of}#{n} ({findings[n - 1].subject}, {name})" for n, name in able.items())
    for number, finding in _numbered(findings):
        if which in (str(number), finding.id):
            if number not in able:
                raise BadInput(
                    f"{of}#{which} has an advice that contend cannot follow: {finding.advice}",
                    hint=f"try {names}",
                )
            return finding
    raise BadInput(f"{of} has no finding '{which}'" if which else f"which finding of {of}?", hint=names)


def _numbered(findings: Sequence[Finding]) -> list[tuple[int, Finding]]:
    return list(enumerate(findings, start=1))


def _against(finding: Finding) -> str:
    """Name who is held back, or beside whom it is measured again; "" for a finding that cannot be tried."""
    if finding.treatment is not None:
        return finding.treatment.suspect
    return " and ".join(finding.expected.beside) if finding.expected is not None else ""


def outcome(finding: Finding, measured: Estimate | None) -> str:
    """Put a slowdown that was expected beside what was measured. None: the run has no such cell.

    >>> from contend.advice.finding import Expected
    >>> was, left, now = (Estimate(v, v - 0.02, v + 0.02, "ratio", 20, 0.95, "", "higher") for v in (1.8, 1.1, 1.11))
    >>> texts = {"id": "F1", "kind": "", "subject": "redis", "resource": "", "sentence": "", "advice": "", "verify": ""}
    >>> finding = Finding(**texts, share=1.0, estimate=was, evidence=(), expected=Expected(("fio",), left))
    >>> outcome(finding, now)
    'redis beside fio: 1.80× [1.78, 1.82] as it was; predicted 1.10× [1.08, 1.12]; measured 1.11× [1.09, 1.13]: they agree'
    """
    assert finding.expected is not None
    expected, beside = finding.expected.estimate, _against(finding)
    if measured is None or not measured.known:
        verdict = "nothing" if measured is None else measured.verdict
        return f"{finding.subject} beside {beside}: predicted {_times(expected)}; measured: {verdict}"
    apart = expected.high < measured.low or measured.high < expected.low
    open_ = measured.low <= 1 <= measured.high and not expected.low <= 1 <= expected.high
    verdict = "they differ" if apart else "undecided, for it may be no slowdown" if open_ else "they agree"
    before = "" if finding.estimate == expected else f" {_times(finding.estimate)} as it was;"
    return (
        f"{finding.subject} beside {beside}:{before} predicted {_times(expected)}; measured {_times(measured)}:"
        f" {verdict}"
    )


def _times(of: Estimate) -> str:
    return format_times(of.value, of.low, of.high)
