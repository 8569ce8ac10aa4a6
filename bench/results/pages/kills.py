"""contend killed at random moments."""

from __future__ import annotations

from results.files import Data
from results.words import bounds, table

PHASES = ("start", "preparation", "pilot", "blocks", "tear-down", "analysis", "report")


def body(d: Data) -> str:
    """What was left, lost or torn, and when the kills came."""
    phases = [p for p in PHASES if p in d["by_phase"]] + [p for p in d["by_phase"] if p not in PHASES]
    return f"""\
contend is killed with SIGKILL at a random moment of a run's life; then `contend destroy --all` has to leave no process, cgroup,
network namespace, container, mount or work file, and `contend run --resume` has to finish the run without losing or repeating a
finished trial, with every file whole.

**{d["recovered"]} of {d["kills"]}** recovered so (95 % bounds for the share of moments, Clopper–Pearson: {bounds(*d["bounds_95"])}).
Something left behind: {d["left_behind"]}; rows lost or run again: {d["rows_lost_or_repeated"]}; files torn: {d["files_torn"]}.
Moments that came after the run's end are not counted: {d["moments_after_the_end"]}.

{table(["killed during", "kills"], [[phase, d["by_phase"][phase]] for phase in phases], "lr")}

{table(["scenario", "kills"], d["by_scenario"].items(), "lr")}"""
