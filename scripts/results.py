"""The results below docs/results: what is stale, pages made from data, figures that other pages quote.

scripts/results.py status [--json] [NAME …]   what is out of date, and why
scripts/results.py render                     write every page from its data
scripts/results.py check                      exit 1 where a page, or a quoted figure, is not what the data say
scripts/results.py quote                      write the figures that README, guides and CHANGELOG quote
scripts/results.py make NAME                  run the command of its recipe
scripts/results.py show NAME                  a data file as JSON, unpacked
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from results import files, quotes, render, status  # noqa: E402 - bench is no package of the environment
from results.recipes import recipes  # noqa: E402


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    of = verbs.add_parser("status")
    of.add_argument("names", nargs="*", metavar="NAME")
    of.add_argument("--json", action="store_true")
    for verb in ("render", "check", "quote"):
        verbs.add_parser(verb)
    for verb in ("make", "show"):
        verbs.add_parser(verb).add_argument("name", metavar="NAME")
    given = parser.parse_args()
    match given.verb:
        case "status":
            return tell(given.names, given.json)
        case "render":
            return write()
        case "check":
            return check()
        case "quote":
            return quote()
        case "make":
            return make(given.name)
        case "show":
            return show(given.name)
    return 0


def tell(names: list[str], as_json: bool) -> int:
    """0, also where something is stale: that is no error."""
    if unknown := [name for name in names if name not in recipes()]:
        return bad(f"there is no result '{unknown[0]}'", f"one of: {', '.join(recipes())}")
    found = status.statuses(names)
    print(json.dumps([one.to_json() for one in found], indent=1) if as_json else status.shown(found))
    return 0


def write() -> int:
    """Only what is another text than before is written."""
    for name, text in render.all_pages().items():
        path = files.RESULTS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


def check() -> int:
    """1 where something differs."""
    wrong = [
        f"docs/results/{name}: is not what the data say: scripts/results.py render"
        for name, text in render.all_pages().items()
        if not (path := files.RESULTS / name).exists() or path.read_text(encoding="utf-8") != text
    ]
    wrong += [f"{one}: scripts/results.py quote" for path in quotes.pages() for one in quotes.differing(path)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def quote() -> int:
    """Only what is another text than before is written."""
    for path in quotes.pages():
        text = path.read_text(encoding="utf-8")
        try:
            new = quotes.rewritten(text)
        except LookupError as error:
            return bad(
                f"{path.relative_to(ROOT)}: {error}", "bench/results/quotes.py says how a mark is written"
            )
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))
    return 0


def make(name: str) -> int:
    """Of the command."""
    if (recipe := recipes().get(name)) is None:
        return bad(f"there is no result '{name}'", f"one of: {', '.join(recipes())}")
    print(
        f"{recipe.command}\nabout {recipe.minutes:g} min; needs: {', '.join(recipe.needs) or 'nothing else'}",
        flush=True,
    )
    return subprocess.run(recipe.command, shell=True, cwd=ROOT, check=False).returncode


def show(name: str) -> int:
    """By the name of a data file."""
    if not files.path_of(name).exists():
        return bad(f"there is no data file '{name}'", "the recipes in bench/results/recipes.yaml name them")
    print(files.dumps(files.load(name)), end="")
    return 0


def bad(what: str, hint: str) -> int:
    """Exit code 2."""
    print(f"error: {what}\n  hint: {hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
