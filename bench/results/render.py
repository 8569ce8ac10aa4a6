"""The pages: one frame for all, a body from the data for each."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from results import files, words
from results.files import RESULTS, Data
from results.recipes import Recipe, of_data, recipes
from results.record import disturbed

NOT_RECORDED = "not recorded"
INDEX = "README.md"
WIDTH = 124


@cache
def environment() -> jinja2.Environment:
    """Undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    made.filters |= words.FILTERS
    made.globals |= words.FUNCTIONS
    return made


def page(name: str, place: Path = RESULTS) -> str:
    """The whole text of docs/results/NAME.md."""
    recipe = recipes()[name]
    data = {one: files.load(one, place) for one in recipe.data}
    module = importlib.import_module(f"results.pages.{recipe.body}")
    body: str = module.body(next(iter(data.values())) if len(data) == 1 else data)
    said: dict[str, list[str]] = {}
    for one, document in data.items():
        if why := disturbed(document["made"]):
            said.setdefault(why, []).append(one)
    warnings = [f"{why} ({', '.join(of)})" if len(data) > 1 else why for why, of in said.items()]
    text = (
        environment()
        .get_template("frame.md.j2")
        .render(
            name=name,
            title=recipe.title,
            question=recipe.question.strip(),
            warnings=warnings,
            files=[head(one, document, recipe, place) for one, document in data.items()],
            body=wrapped(body.strip("\n")),
        )
    )
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def wrapped(text: str) -> str:
    """Prose to WIDTH; tables, headings, lists and what a terminal showed are left as they are.

    >>> wrapped("a " * 70).count(chr(10))
    1
    """
    parts = re.split(r"(^```\n.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```\n") else _paragraphs(part) for part in parts)


def _paragraphs(text: str) -> str:
    made = []
    for block in re.split(r"\n{2,}", text):
        lines = block.strip("\n")
        prose = lines and not lines.startswith(("|", "#", "- ", "<"))
        ends = (block[: len(block) - len(block.lstrip("\n"))], block[len(block.rstrip("\n")) :])
        body = textwrap.fill(lines, WIDTH, break_long_words=False, break_on_hyphens=False) if prose else lines
        made.append(f"{ends[0]}{body}{ends[1]}")
    return "\n\n".join(made)


def head(name: str, document: Data, recipe: Recipe, place: Path) -> dict[str, str]:
    """What the frame says of a data file."""
    made = document["made"]
    command, commit = made.get("command"), ", ".join(made.get("commits") or ()) or made.get("commit")
    date = made.get("date") or (
        f"date {NOT_RECORDED} (kept since {made['kept_since']})"
        if made.get("kept_since")
        else f"date {NOT_RECORDED}"
    )
    seconds = made.get("seconds")
    return {
        "command": f"`{_cell(command)}`" if command else NOT_RECORDED,
        "commit": f"{commit}{', with changes' if made.get('dirty') else ''}"
        if commit
        else f"commit {NOT_RECORDED}",
        "date": date + (f", {words.duration(seconds)}" if seconds is not None else ""),
        "machine": machine(made.get("machine") or {}),
        "load": load(made),
        "noted": _cell(made.get("noted") or ""),
        "n": environment().from_string(recipe.n).render(document),
        "link": f"[{files.path_of(name, place).name}]({files.path_of(name, place).name})",
    }


def machine(of: Mapping[str, Any]) -> str:
    """CPU, CPUs, memory, system and kernel."""
    kernel = str(of.get("kernel") or "").removeprefix("Linux ")
    python = of.get("python")
    cpu = of.get("cpu") or f"CPU {NOT_RECORDED}"
    return ", ".join(
        [
            f"{of['cpus']} CPUs {cpu}" if of.get("cpus") else f"{cpu}, their number {NOT_RECORDED}",
            f"{of['memory_gib']} GiB" if of.get("memory_gib") else f"memory {NOT_RECORDED}",
            *([str(of["os"])] if of.get("os") else []),
            f"kernel {kernel}" if kernel else f"kernel {NOT_RECORDED}",
            *([f"Python {python}"] if python else []),
        ]
    )


def load(made: Mapping[str, Any]) -> str:
    """Before and during, and what others used."""
    before, most, foreign = (made.get(key) for key in ("load_before", "load_max", "foreign_cpus"))
    after = made.get("load_after")
    parts = [
        f"{before:.1f} before" if before is not None else f"before: {NOT_RECORDED}",
        f"{most:.1f} at most during" if most is not None else f"highest during: {NOT_RECORDED}",
        *([f"{after:.1f} at the end"] if after is not None and most is None else []),
        f"others used {foreign:.2f} CPUs on average, {made['foreign_cpus_max']:.1f} at most"
        if foreign is not None
        else f"CPU time of others: {NOT_RECORDED}",
        *([f"the hypervisor took {made['stolen_cpus']:.2f}"] if made.get("stolen_cpus") is not None else []),
    ]
    return "; ".join(parts)


def index(place: Path = RESULTS) -> str:
    """docs/results/README.md."""
    rows = []
    for name, recipe in recipes().items():
        made = [files.load(one, place)["made"] for one in recipe.data]
        dates = sorted(
            {
                str(m["date"])[:10] if m.get("date") else f"({m.get('kept_since') or NOT_RECORDED})"
                for m in made
            }
        )
        commits = list(dict.fromkeys(str(m.get("commit") or NOT_RECORDED) for m in made))
        rows.append(
            {
                "name": name,
                "title": recipe.title,
                "question": " ".join(recipe.question.split()),
                "date": ", ".join(dates),
                "commit": ", ".join(commits),
                "disturbed": any(disturbed(m) for m in made),
            }
        )
    return environment().get_template("index.md.j2").render(rows=rows)


def all_pages(place: Path = RESULTS) -> dict[str, str]:
    """File name and text of every page, the index too."""
    return {f"{name}.md": page(name, place) for name in recipes()} | {INDEX: index(place)}


def write_pages_of(data: str, place: Path = RESULTS) -> None:
    """After a data file was written: its pages, and the index where all others are."""
    for name in of_data(data):
        if all(files.path_of(one, place).exists() for one in recipes()[name].data):
            (place / f"{name}.md").write_text(page(name, place), encoding="utf-8")
    if place == RESULTS:
        (place / INDEX).write_text(index(place), encoding="utf-8")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
