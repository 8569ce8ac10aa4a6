"""hyperfine's `--export-json`: results[] of command, times[] in seconds, exit_codes[], memory_usage_byte[].

Source: hyperfine, src/benchmark/benchmark_result.rs. Each time is of a process of its own, so a run; `user` and `system`
are means over them all, and belong to none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contend.imports.document import Document, Readings, Run, items
from contend.imports.source import Source


def is_mine(document: Any) -> bool:
    results = document.get("results") if isinstance(document, Mapping) else None
    return isinstance(results, list) and all(isinstance(r, Mapping) and "command" in r for r in results)


def read(source: Source) -> Document:
    runs: list[Run] = []
    for number, result in enumerate(items(source.document(), "results", source.name)):
        where = f"{source.name}: result {number + 1}"
        times = items(result, "times", where)
        codes = result.get("exit_codes") or [0] * len(times)
        memory = result.get("memory_usage_byte") or []
        if len(codes) != len(times):
            raise source.bad(f"result {number + 1} has {len(times)} times and {len(codes)} exit codes", _HINT)
        for index, (value, code) in enumerate(zip(times, codes, strict=True)):
            measured = Readings(f"{where}, run {index + 1}")
            measured.add("wall", value, "s", "lower", at="times")
            if len(memory) == len(times):
                measured.add("max_rss", memory[index], "B", "lower", at="memory_usage_byte")
            error = ""
            if code != 0:  # null: a signal ended it
                how = "was ended by a signal" if code is None else f"ended with exit status {code}"
                error = f"the command {how} after {measured.rows[0].value:.4g} s"
            readings = () if error else measured.done()
            runs.append(Run("", {"command": str(result["command"])}, readings, 1, error=error))
    return Document("", tuple(runs))


_HINT = "is it whole, and hyperfine's own output?"
