"""The tracer's tests under every Python."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: Data) -> str:
    """Counts, by interpreter and by file."""
    pythons = d["interpreters"]
    rows = [
        [
            f"{of['version']} ({of['about']})" if of["about"] else of["version"],
            of["passed"],
            "" if of["skipped"] is None else of["skipped"],
            of["failures"],
            ", ".join(of["missing"]) or "none",
        ]
        for of in pythons
    ]
    names = sorted({name for of in pythons for name in of["files"]})
    cells = [[name, *(_ran(of["files"].get(name)) for of in pythons)] for name in names]
    failed = [f"Failed under {of['version']}: {', '.join(of['failed'])}" for of in pythons if of["failed"]]
    by_file = (
        [table(["passed of those that ran", *(of["version"] for of in pythons)], cells)] if cells else []
    )
    return "\n\n".join(
        [
            table(
                ["Python", "passed", "skipped", "failed", "packages without a wheel for it"], rows, "lrrrl"
            ),
            *by_file,
            *failed,
        ]
    )


def _ran(counts: Data | None) -> str:
    return f"{counts['passed']} of {counts['ran']}" if counts and counts["ran"] else "–"
