"""Each page below docs/results is its rendering; each data file has a recipe, each recipe a page; nothing else is there."""

from __future__ import annotations

import importlib
import json
import lzma
from pathlib import Path

import pytest

from results import files, recipes, render
from results.record import ROOT, disturbed

HINT = "scripts/results.py render writes it; bench/results/recipes.yaml says what there is"
HEAD = {
    "command", "date", "commit", "dirty", "machine", "load_before", "load_max", "foreign_cpus", "seconds", "seed",
}  # fmt: skip


@pytest.mark.parametrize("name", recipes.recipes())
def test_a_page_is_its_rendering(name: str) -> None:
    kept = (files.RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert kept == render.page(name), HINT


def test_the_index_is_its_rendering() -> None:
    assert (files.RESULTS / render.INDEX).read_text(encoding="utf-8") == render.index(), HINT


def test_nothing_else_lies_there() -> None:
    wanted = {render.INDEX, *(f"{name}.md" for name in recipes.recipes())}
    for recipe in recipes.recipes().values():
        wanted |= {files.path_of(name).name for name in recipe.data} | set(recipe.raw)
    assert {path.name for path in files.RESULTS.iterdir()} == wanted, HINT


def test_every_data_file_has_the_head() -> None:
    """Old ones lack much of it; then it says null, and the page "not recorded"."""
    for recipe in recipes.recipes().values():
        for name in recipe.data:
            document = files.load(name)
            assert list(document)[:2] == ["schema_version", "made"], name
            assert set(document["made"]) >= HEAD, name


def test_files_are_small_and_written_the_same_way() -> None:
    for recipe in recipes.recipes().values():
        for name in recipe.data:
            path = files.path_of(name)
            assert path.stat().st_size < 1.2 * files.LARGE_BYTES, path
            raw = path.read_bytes()
            text = lzma.decompress(raw) if path.suffix == ".xz" else raw
            assert files.dumps(files.load(name)).encode() == text, f"{name}: not as files.store() writes it"


def test_recipes_name_what_there_is() -> None:
    for name, recipe in recipes.recipes().items():
        for path in (*recipe.entry, *recipe.without):
            assert (ROOT / path).exists(), f"{name}: {path}"
        module = importlib.import_module(f"results.pages.{recipe.body}")
        assert callable(module.body), name


def test_a_changed_figure_is_seen(tmp_path: Path) -> None:
    document = files.load("kills") | {"recovered": 7}
    files.store("kills", document, tmp_path)
    assert f"**7 of {document['kills']}** recovered" in render.page("kills", tmp_path) != render.page("kills")


def test_a_figure_in_an_expression_is_an_error_where_the_data_lack_it(tmp_path: Path) -> None:
    document = files.load("kills")
    del document["by_phase"]
    files.store("kills", document, tmp_path)
    with pytest.raises(KeyError):
        render.page("kills", tmp_path)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"machine": {"cpus": 2}, "foreign_cpus": 0.09, "load_before": 30.0}, ""),
        ({"machine": {"cpus": 2}, "foreign_cpus": 0.11}, "others used 0.11 of 2 CPUs"),
        (
            {"machine": {"cpus": 2}, "foreign_cpus": 0.0, "stolen_cpus": 0.12},
            "the hypervisor took 0.12 of 2 CPUs",
        ),
        ({"machine": {"cpus": 2}, "foreign_cpus": 0.0, "stolen_cpus": 0.09}, ""),
        ({"machine": {"cpus": 2}, "foreign_cpus": None, "load_before": 2.5}, "load 2.5 on 2 CPUs"),
        ({"machine": {"cpus": 2}, "foreign_cpus": None, "load_before": 1.9}, ""),
        ({"machine": {}, "disturbed": "tests ran"}, "tests ran"),
        ({}, ""),
    ],
)
def test_what_is_disturbed(made: dict[str, object], says: str) -> None:
    assert disturbed(made).startswith(says) and bool(disturbed(made)) == bool(says)


def test_a_large_file_is_packed_and_comes_back(tmp_path: Path) -> None:
    large = {"rows": [{"n": n} for n in range(20_000)]}
    assert files.store("x", large, tmp_path).name == "x.json.xz"
    assert files.load("x", tmp_path) == large
    assert files.store("x", {"rows": []}, tmp_path).name == "x.json"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]
    assert json.loads((tmp_path / "x.json").read_text()) == {"rows": []}
