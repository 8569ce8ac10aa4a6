"""The page of a recording: the verdict, the figures, and timelines to brush. Self-contained, as `html` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contend.contention.alibi.verdict import Alibi
from contend.report import html
from contend.report.sample_plots import sample_plots
from contend.report.sample_series import SampleLines, Users, read_sample
from contend.report.sample_terminal import value, verdict_words
from contend.report.stack_plot import programs, stack_plot
from contend.sample.stacks import read_stacks
from contend.sample.summary import Summary
from contend.store.directory import RunDirectory
from contend.units import NS_PER_S, format_duration

RANGES = 12  # of the list for those who cannot drag a brush


def render_sample(run: RunDirectory, summary: Summary, *, shown_as: str) -> str:
    """The page as text. `shown_as`: the directory as a person would type it. Names are escaped wherever they stand."""
    lines = read_sample(run.series)
    stacks = read_stacks(run)
    plots = [*sample_plots(lines, summary.cpus), *filter(None, [stack_plot(stacks)])]
    phases = summary.phases if len(summary.phases) > 1 else ()
    own_phases = summary.command_phases or (None,) * len(phases)
    environment = run.environment()
    return html.page("sample", plots, "sample",
        summary=summary,
        recording=summary.recording,
        verdict=summary.verdict,
        party=summary.command_alibi,
        phases=[(_range(a, summary.begin_ns), a, own) for a, own in zip(phases, own_phases, strict=False)],
        verdict_words=verdict_words,
        measures=list(_measures(summary)),
        plots=plots,
        ranges=list(_ranges(lines)),
        programs=programs(stacks),
        users=_users(lines.users),
        facts=_facts(summary, environment),
        cost=list(_cost(summary)),
        machine=list(html.flatten(environment)),
        where=shown_as,
        title=title(summary),
        data=html.script_json(_data(lines.users)),
    )  # fmt: skip


def title(summary: Summary) -> str:
    """The recorded command, or a title for a recording without one."""
    words = " ".join(summary.recording.get("command", ()))
    if not words:
        return f"{format_duration(summary.length_s * NS_PER_S)} of this host"
    return words if len(words) <= 120 else words[:119] + "…"


def _range(alibi: Alibi, origin_ns: int) -> str:
    start, end = ((t - origin_ns) / NS_PER_S for t in (alibi.start_ns, alibi.end_ns))
    return f"{start:.1f} – {end:.1f} s"


def _facts(summary: Summary, environment: dict[str, Any]) -> list[tuple[str, str]]:
    recording = summary.recording
    ended = recording.get("exit")
    facts = [
        ("Recorded", f"{format_duration(summary.length_s * NS_PER_S)}, every {format_duration(recording['interval_ns'])}"),
        ("Ended", recording.get("failed") or recording.get("stopped") or "contend was ended before the recording was"),
        ("Exit", "" if ended is None else str(ended["status"])),
        ("CPU time", "" if ended is None else format_duration(ended["user_ns"] + ended["system_ns"])),
        ("Sources", ", ".join(f"{part} from {source}" for part, source in recording.get("sources", {}).items())),
        ("Machine", ", ".join(str(environment[k]) for k in ("cpu", "os") if environment.get(k))),
        ("Began", str(recording.get("began_utc", ""))[:16].replace("T", " ") + " UTC"),
    ]  # fmt: skip
    return [(name, text) for name, text in facts if text]


def _measures(summary: Summary) -> Iterator[tuple[str, str, str, str, str]]:
    for m in summary.host:
        what = " ".join(part for part in (m.subject, m.what) if part)
        unit = {"CPUs": " CPUs", "threads": "", "requests": ""}.get(m.unit, "")
        mean, p95, most = (value(x, m.unit) + unit for x in (m.mean, m.p95, m.max))
        yield m.resource, what, mean, p95, most


def _cost(summary: Summary) -> Iterator[tuple[str, str]]:
    recording, late = summary.recording, summary.lateness
    cost = recording.get("cost")
    if cost is not None and summary.probe_share is not None:
        yield (
            "contend-probe",
            f"{summary.probe_share * 100:.2g} % of one CPU ({format_duration(cost['cpu_ns'])})",
        )
        if cost["bpf_ns"]:
            yield "its BPF programs", f"{format_duration(cost['bpf_ns'])}, counted in it"
        if "own_cpu_ns" in recording:
            own = recording["own_cpu_ns"] / NS_PER_S / max(summary.length_s, 1e-9)
            yield "contend around it", f"{own * 100:.2g} % of one CPU"
        yield "Records missed", str(cost["dropped"])
        yield "Reads that failed", f"{cost['errors']} ({cost['last_error']})" if cost["errors"] else "0"
    if late is not None:
        yield "Samples", f"{summary.samples}, late by {format_duration(late.median_ns)} (median), " \
                         f"{format_duration(late.p99_ns)} (p99), {format_duration(late.max_ns)} (max)"  # fmt: skip


def _ranges(lines: SampleLines) -> Iterator[tuple[str, float, float]]:
    """Equal parts of the recording."""
    if lines.end_s <= 0:
        return
    width = lines.end_s / RANGES
    for n in range(RANGES):
        start, end = n * width, (n + 1) * width
        if end >= 120:
            yield f"{_clock(start)} – {_clock(end)}", start, end
        else:
            yield f"{start:.3g} – {end:.3g} s", start, end


def _clock(seconds: float) -> str:
    """
    >>> _clock(3725), _clock(59)
    ('1:02:05', '0:00:59')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


def _users(users: Users | None) -> list[tuple[str, str, str, str]]:
    """The table as it stands before a range is chosen."""
    if users is None:
        return []
    length = users.edges[-1] - users.edges[0]
    means = {by: [sum(line) / length for line in lines] for by, lines in users.used.items()}
    order = sorted(range(len(users.names)), key=lambda n: -means["cpu"][n])
    return [
        (
            users.names[n],
            f"{means['cpu'][n]:.3f}",
            f"{means['delay'][n]:.3f}",
            f"{means['disk'][n] / 1e6:.3f}",
        )
        for n in order
    ]


def _data(users: Users | None) -> dict[str, Any] | None:
    if users is None:
        return None
    return {
        "edges": list(users.edges),
        "names": list(users.names),
        "used": {k: list(v) for k, v in users.used.items()},
    }
