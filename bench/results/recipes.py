"""recipes.yaml: each page, what makes it and what it depends on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

PLACE = Path(__file__).parent / "recipes.yaml"


class Recipe(BaseModel):
    """One page. What is left out is as written here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    question: str
    command: str
    """From the root of the tree, by a shell."""
    minutes: Annotated[float, Field(gt=0)]
    """On two CPUs; about."""
    needs: tuple[Literal["quiet", "root", "cloud", "broker", "pythons"], ...] = ()
    data: tuple[str, ...] = ()
    """Names of data files; default: the page's own."""
    raw: tuple[str, ...] = ()
    """Other files of it below docs/results, which the page links to."""
    n: str
    """What is counted: a Jinja expression over the first data file, or over each where there are several."""
    body: str = ""
    """The module of `results.pages`; default: the page's name."""
    entry: tuple[str, ...]
    """Files, or folders of Rust, Python or YAML, whose meaning the result depends on; with what they import."""
    without: tuple[str, ...] = ()
    """Paths that are imported and do not matter to the figures."""
    figures: dict[str, str] = {}
    """What other pages quote: a name, and a Jinja template over the first data file, with the rest as `files`."""


@cache
def recipes() -> dict[str, Recipe]:
    """By the page's name, sorted."""
    told = yaml.safe_load(PLACE.read_text(encoding="utf-8"))
    found = {name: Recipe.model_validate(of) for name, of in sorted(told.items())}
    return {
        name: one.model_copy(update={"data": one.data or (name,), "body": one.body or name.replace("-", "_")})
        for name, one in found.items()
    }


def of_data(data: str) -> list[str]:
    """The pages that a data file is shown on."""
    return [name for name, recipe in recipes().items() if data in recipe.data]
