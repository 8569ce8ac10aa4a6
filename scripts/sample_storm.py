"""Make the sample of docs/guides/context.md from a finished run of boot-storm: scripts/sample_storm.py RUN.

It is the run's directory as it is, without its timelines, page and findings, and of its ledger only how it began and ended:
the rest names files of the host.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import tarfile
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "docs/samples/boot-storm.tar.xz"
WHOLE = ("environment.json", "plan.json", "scenario.yaml", "trials.ndjson")
EVENTS = ("run-start", "run-end")


def content(run: Path) -> dict[str, bytes]:
    """Files of the sample, by name."""
    files = {name: (run / name).read_bytes() for name in WHOLE}
    lines = (run / "ledger.ndjson").read_text(encoding="utf-8").splitlines(keepends=True)
    files["ledger.ndjson"] = "".join(line for line in lines if json.loads(line)["event"] in EVENTS).encode()
    for path in sorted(run.glob("outputs/*/storm.json")):
        files[str(path.relative_to(run))] = path.read_bytes()
    return files


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, metavar="RUN")
    files = content(parser.parse_args().run)
    SAMPLE.parent.mkdir(exist_ok=True)
    with lzma.open(SAMPLE, "wb", preset=9) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"boot-storm/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    print(f"{SAMPLE}: {len(files)} files, {SAMPLE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
