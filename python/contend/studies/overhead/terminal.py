"""An overhead study in the terminal, below its table of ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contend.report import cpu_map, scheduling_words
from contend.report.model import ReportInput
from contend.stats.platform_effects import KINDS, VARIED, Kind
from contend.studies.overhead import words as wording
from contend.studies.overhead.result import Overheads

FIRST: tuple[Kind, ...] = (
    "pinning",
    "CHR",
    "CHR × pinning",
    "pieces",
    *VARIED,
    "network",
)  # the others say the same of less


def show_overhead(
    report: ReportInput,
    line: Callable[..., None],
    columns: Callable[[Sequence[str], Sequence[Sequence[str]], int], None],
    *,
    width: int,
    verbose: bool = False,
) -> None:
    """Type and size, pinning, what others advise, and how it was measured; verbose: the other effects, predictions,
    what the scheduler did.

    line: prints a paragraph, with a style, an indent and a hanging indent; columns: prints a table; width: of the
    terminal, in columns.
    """
    analysis = report.analysis
    overheads: Overheads = analysis.result
    for note in wording.notes(overheads):
        line(note, "dim", 2, 2)
    line()
    line("What is the platform's (PTO), and what is its size's (PSO)", "bold")
    if rows := wording.decomposition_rows(overheads):
        columns(wording.decomposition_headers(), rows, 5)
    for refused in wording.refusals(overheads):
        line(refused, "", 2, 2)
    if wording.has_descriptions(overheads):
        line("* a description: the decomposition is claimed of vanilla containers only", "dim", 2, 2)
    kinds = KINDS if verbose else FIRST
    if rows := wording.effect_rows(overheads, kinds):
        line()
        line("Effects", "bold")
        columns(wording.effect_headers(), rows, 2)
        for meaning in wording.meanings(overheads, kinds):
            line(meaning, "dim", 2, 2)
        for seen in wording.throttling(overheads, kinds):
            line(seen, "", 2, 2)
    if (cpus := cpu_map.cpu_map(report)) is not None:
        line()
        line(f"Which CPUs each set got, of {cpu_map.summary(cpus.topology)}", "bold", 0, 2)
        columns(*cpu_map.terminal_rows(cpus, width - 2), 3)
        if any(cpu_map.TAKEN in row[-1] for row in cpu_map.terminal_rows(cpus, width - 2)[1]):
            line("a mark a CPU, those of a core together; | between caches, || between nodes", "dim", 2, 2)
    if verbose and (rows := wording.prediction_rows(overheads)):
        line()
        line("Sizes left out and predicted from the others", "bold")
        columns(wording.prediction_headers(), rows, 3)
    if verbose and (rows := scheduling_words.rows(analysis)):
        line()
        line("What the scheduler did", "bold")
        columns(scheduling_words.headers(), rows, 4)
        line(scheduling_words.ABOUT, "dim", 2, 2)
    if verbose and (rows := scheduling_words.waits_rows(analysis)):
        line()
        line("How long tasks waited for a CPU, and ran", "bold")
        columns(scheduling_words.waits_headers(), rows, 5)
        line(scheduling_words.WAITS_ABOUT, "dim", 2, 2)
    line()
    line("What others advise (Ghatrehsamani et al., ICPP 2020), on this host", "bold")
    for practice in overheads.practices:
        line(f"{practice.verdict}: {practice.claim}", "", 2, 2)
        for text in practice.answers:
            line(text, "dim", 4, 2)
