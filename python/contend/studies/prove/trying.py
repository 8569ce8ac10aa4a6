"""Trials of what a finding of prove or watch advises: its suspect alone, by its way, and how that is kept."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence

from contend.advice.finding import Finding
from contend.contention.tenants import UNITS
from contend.errors import HostFailed
from contend.platforms import by_hand, calls
from contend.platforms.treatments import Switch, put
from contend.stats.estimate import Estimate
from contend.studies.prove.model import Prove
from contend.studies.prove.words import percent

_SYSTEMCTL_S = 30.0


def again(scenario: Prove, finding: Finding) -> Prove:
    """The experiment of a run of prove with the suspect of one of its findings alone."""
    assert finding.treatment is not None
    suspect = finding.treatment.suspect
    title = f"What does {suspect} cost {finding.treatment.victim}? Tried again"
    return scenario.model_copy(update={"suspects": (suspect,), "title": title, "consent": False})


def outcome(predicted: Estimate | None, measured: Estimate) -> str:
    """Put what was predicted beside what was measured. Both: times with the suspect held back, over those as it is.

    predicted: None where nothing was, as by a watch.

    >>> was, now = (Estimate(v, v - 0.02, v + 0.02, "ratio", 20, 0.95, "", "lower") for v in (0.8, 0.81))
    >>> outcome(was, now)
    'predicted: it costs 25 % (22–28.2 %); measured: 23.5 % (20.5–26.6 %): they agree'
    >>> wide = Estimate(1.0, 0.5, 2.0, "ratio", 6, 0.95, "", "undecided")
    >>> outcome(was, wide).rpartition(": ")[2]
    'undecided, for it may cost nothing'
    """
    if not measured.known:
        return f"measured: {measured.verdict}"
    if predicted is None or not predicted.known:
        return f"measured: it costs {_cost(measured)}; a watch tells who had the CPU or the disk, and predicts nothing"
    apart = predicted.high < measured.low or measured.high < predicted.low
    agree = (
        "they agree" if measured.differs or not predicted.differs else "undecided, for it may cost nothing"
    )
    verdict = "they differ" if apart else agree
    return f"predicted: it costs {_cost(predicted)}; measured: {_cost(measured)}: {verdict}"


def _cost(of: Estimate) -> str:
    high = f"{percent(1 / of.low - 1)} %" if of.low > 0 else "any"
    return f"{percent(1 / of.value - 1)} % ({percent(1 / of.high - 1)}–{high})"


def keep(suspect: str, switches: Sequence[Switch]) -> tuple[str, str]:
    """Hold a suspect back for good; returns what was done, and what takes it back. Raises HostFailed."""
    properties = [by_hand.unit_properties(switch) for switch in switches]
    if suspect.endswith(UNITS) and all(properties):
        command = ["systemctl", "set-property", suspect, *itertools.chain(*properties)]
        try:
            done = calls.call(command, _SYSTEMCTL_S)
        except OSError as error:
            raise HostFailed(f"cannot start systemctl: {error.strerror}", hint=shlex.join(command)) from error
        if done.late or done.code:
            raise HostFailed(f"systemctl did not keep it: {done.err.strip()}", hint=shlex.join(command))
        back = (by_hand.unit_properties(Switch(of.setting, of.during, of.before)) for of in switches)
        return shlex.join(command), shlex.join([*command[:3], *itertools.chain(*back)])
    for switch in switches:
        put(switch.setting, switch.during)
    return _writes((of, of.during) for of in switches), _writes((of, of.before) for of in switches)


def _writes(values: Iterable[tuple[Switch, str]]) -> str:
    return "; ".join(by_hand.command(of.setting, value) for of, value in values)
