"""contend on hosts like the users' own, emulated.

    testbed/hosts/run                    the kinds there are
    testbed/hosts/run -o   DIR NAME…     boots each, and tries everything in it; `all` names all

Wheels are those in dist/ (make dist). A host whose file is in DIR is not tried again, but for the steps of --only. It
needs root, for the images, and the network until these are made. Exit status 1 where something is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hosts import guest, image
from hosts.guest import Ended, carried_out
from hosts.kinds import BY_NAME, KINDS, Kind
from hosts.steps import Came, Outcome, judged, plan
from results.files import save_at
from results.record import recording

WITHIN_S = 6000.0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, help="a JSON file for each host goes here")
    parser.add_argument("--wheels", type=Path, default=Path("dist"))
    parser.add_argument("--only", default="", help="these steps, with commas")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="guests that run at a time")
    parser.add_argument(
        "--write", type=Path, metavar="PATH", help="the result of them all, without its suffix"
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    if not given.names:
        for kind in KINDS:
            print(f"{kind.name:14} {kind.what}")
        return 0
    names = list(BY_NAME) if given.names == ["all"] else given.names
    if unknown := [name for name in names if name not in BY_NAME]:
        parser.error(f"no host is called '{unknown[0]}': {', '.join(BY_NAME)}")
    only = [one for one in given.only.split(",") if one]
    if given.output:
        given.output.mkdir(parents=True, exist_ok=True)

    def one(name: str) -> dict[str, Any]:
        kept = given.output / f"{name}.json" if given.output else None
        before: dict[str, Any] | None = None
        if kept is not None and kept.exists():
            before = json.loads(kept.read_text(encoding="utf-8"))
            if not only:
                return before
        found = tried(BY_NAME[name], given.wheels, only)
        if before is not None:
            anew = {row["step"]: row for row in found["steps"]}
            found["commit"] = ", ".join(dict.fromkeys([before["commit"], found["commit"]]))
            found["steps"] = [anew.pop(row["step"], row) for row in before["steps"]] + [*anew.values()]
        if kept is not None:
            kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return found

    with recording() if given.write else contextlib.nullcontext():
        guest.emulator()
        with ThreadPoolExecutor(given.at_once) as pool:
            hosts = list(pool.map(one, names))
        if given.write:
            save_at(given.write, {"hosts": hosts})
    return 1 if any(row["came"] == Came.BROKEN for host in hosts for row in host["steps"]) else 0


def tried(kind: Kind, wheels: Path, only: list[str]) -> dict[str, Any]:
    """Boot one and try everything in it; printed as it comes."""
    made = image.made(kind.image, wheels)
    steps = [step for step in plan(kind) if not only or step["name"] in (*only, "first", "setup")]
    outcomes: list[Outcome] = []
    up_s, began = None, time.monotonic()
    print(f"== {kind.name}: {kind.what}", flush=True)
    with tempfile.TemporaryDirectory(prefix="contend-host-") as place:
        try:
            for said in carried_out(kind, made, steps, Path(place), WITHIN_S):
                if "step" not in said:
                    up_s = said["up_s"]
                    print(f"   {kind.name}: up after {up_s} s", flush=True)
                    continue
                outcome = judged(said)
                if outcome.step not in ("first", "setup") or outcome.came is Came.BROKEN:
                    outcomes.append(outcome)
                    print(
                        f"   {kind.name}: {outcome.step:20} {outcome.took_s:6.1f} s  {outcome.came}  {outcome.words}",
                        flush=True,
                    )
                    if outcome.came is Came.BROKEN:
                        print(f"{said['out'][-1500:]}\n{said['err'][-1500:]}", file=sys.stderr, flush=True)
        except Ended as ended:
            outcomes.append(Outcome("guest", Came.BROKEN, str(ended), round(time.monotonic() - began, 1)))
            print(f"   {kind.name}: broken: {ended}", flush=True)
    return {
        "host": kind.name,
        "what": kind.what,
        "commit": commit(),
        "up_s": up_s,
        "steps": [asdict(each) for each in outcomes],
    }


def commit() -> str:
    """The commit of this checkout, of which the wheels are to be."""
    return subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], check=True, cwd=image.ROOT, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
