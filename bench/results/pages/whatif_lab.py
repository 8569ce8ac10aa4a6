"""Whether what-if says what a change of the laboratory brings."""

from __future__ import annotations

from results.files import Data
from results.words import pct, table


def body(d: Data) -> str:
    """A row for each change."""
    rows = []
    for told in d["rows"]:
        cells = [told["name"]]
        for figure in ("median", "makespan"):
            before, after = told["before_s"][figure], told["after_s"][figure]
            cells += [
                f"{before:.2f} → {told['predicted_s'][figure]:.2f} / {after:.2f} s",
                f"{100 * told['error'][figure]:+.1f} %",
            ]
        trusted = "trusted" if told["trusted"] else f"refused: {told['reason']}"
        rows.append([*cells, f"{pct(told['self_replay_error'], 1)} off: {trusted}"])
    head = [
        "change", "median before → predicted / measured", "error", "makespan before → predicted / measured", "error",
        "replay of the unedited storm",
    ]  # fmt: skip
    return f"""\
Boot storms of the [laboratory](../guides/storm-lab.md): {d["traces"]} as they are and {d["traces"]} with the change made, in turns,
all under `contend trace`. `contend whatif` predicts from the first what the others then were: median boot time and makespan, mean
of the storms.

{table(head, rows, "llrlrl")}

The host's CPUs were busy for {pct(max(told["host_cpu_share"] for told in d["rows"]))} of a storm at most."""
