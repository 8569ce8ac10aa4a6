"""How much do layouts in memory alone make of the time of real programs?

    python bench/layout_spread.py [--blocks 40] [--write docs/results/layout-spread]        (10 min)

Three programs as distributions ship them, each against itself by `contend ab --randomise layout --instructions`: trials run
in environments of four sizes, drawn by chance, so that stacks begin elsewhere. The answer says what these make alone.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from results.files import save_at
from results.record import recording

CONTEND = (sys.executable, "-m", "contend")
QUERY = """\
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
SELECT count(*), sum(i * i % 7) FROM n WHERE i % 3 = 0;"""
PROGRAMS = {
    "xz": ["xz", "-T1", "-2", "-k", "-c", "text"],
    "sqlite3": ["sqlite3", ":memory:", QUERY],
    "openssl": ["openssl", "enc", "-aes-256-ctr", "-pass", "pass:x", "-pbkdf2", "-in", "large"],
}

Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--write", type=Path, metavar="PATH", help="without its suffix")
    given = parser.parse_args()
    with recording(), tempfile.TemporaryDirectory(prefix="contend-layouts-") as name:
        folder = Path(name)
        chance = random.Random(1)
        words = ["".join(chance.choices("abcdefgh", k=chance.randint(2, 9))) for _ in range(5000)]
        (folder / "text").write_text(" ".join(chance.choices(words, k=600_000)), encoding="ascii")
        (folder / "large").write_bytes(chance.randbytes(64 << 20))
        rows = []
        for title, command in PROGRAMS.items():
            rows.append(measured(title, command, given.blocks, folder))
            print(json.dumps(rows[-1]), flush=True)
        if given.write:
            save_at(given.write, {"blocks": given.blocks, "rows": rows})
    return 0


def measured(title: str, command: list[str], blocks: int, folder: Path) -> Row:
    """Compare a program with itself over layouts. Raises SystemExit."""
    silent = ["sh", "-c", 'exec "$@" > /dev/null', "sh", *command]
    run = subprocess.run(
        [*CONTEND, "ab", "--json", "--randomise", "layout", "--instructions", "--target", "none", "--blocks", str(blocks),
         "--", *silent, "--vs", *silent],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not run.stdout:
        raise SystemExit(run.stderr)
    analysis = json.loads(run.stdout)["data"]
    (cell,) = (cell for cell in analysis["cells"] if cell["metric"]["primary"])
    estimate, witnesses = cell["estimate"], analysis["compare"]
    return {
        "program": title,
        "command": " ".join(command)[:70],
        "ratio": [round(estimate[bound], 5) for bound in ("value", "low", "high")],
        "verdict": estimate["verdict"],
        "alone_s": round(cell["baseline"]["value"], 4),
        "blocks": analysis["design"]["blocks"],
        "layouts": witnesses["layouts"],
        "instructions": witnesses["instructions"],
    }


if __name__ == "__main__":
    sys.exit(main())
