"""The page of a prediction: whole, escaped, with the sentence and the figures of the terminal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import altair
import jsonschema
import pytest

from contend.contention.whatif.gate import Gate
from contend.contention.whatif.prediction import Whatif
from contend.contention.whatif.ranking import Fix
from contend.contention.whatif.regime import Regime
from contend.contention.whatif.storms import Edit
from contend.contention.whatif.times import KEYS, Predicted, Times
from contend.contention.whatif.verification import Compared, Verification
from contend.report.theme import resolve
from contend.report.vega import unpacked
from contend.report.whatif_page import render_prediction, render_verification
from contend.report.whatif_terminal import answer, show_answer, signed
from unit.report.test_report_html import Page

MS = 1_000_000
BEFORE, AFTER = Times(400 * MS, 600 * MS, 700 * MS, 800 * MS), Predicted(200 * MS, 180 * MS, 220 * MS)
PREDICTED = dict.fromkeys(KEYS, AFTER)
EDIT = Edit("hold", "<db>", 0.5)


def prediction(
    edits: tuple[Edit, ...], fixes: tuple[Fix, ...] = (), refused: tuple[Edit, ...] = ()
) -> Whatif:
    regime = Regime("blocked", 0.02, 0.1, 0.01, "the busiest process computed for 2 % of the storm")
    return Whatif(
        ("storm-<1>", "storm-2"), edits, 24, BEFORE, PREDICTED, Gate(0.004, True, None), regime, fixes, ("a note",),
        refused=refused,
    )  # fmt: skip


class Read(Page):
    """A page, with the words that a person sees."""

    def __init__(self, markup: str) -> None:
        self.words: list[str] = []
        super().__init__(markup)
        assert self.tags["h1"] == self.tags["main"] == 1
        assert all(n == 1 for n in self.ids.values())

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


def made(of: Whatif) -> Read:
    markup = render_prediction(of, "contend whatif '<storm>'", "contend whatif '<storm>' --verify AFTER")
    for raw in ("<db>", "<1>", "<storm>"):
        assert raw not in markup
    return Read(markup)


def test_an_edit_has_its_times_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    of = prediction((EDIT,))
    assert answer(of) == (
        "With --hold <db>=0.5 the median job would take 200 ms [180 ms, 220 ms] instead of 400 ms (−50.0 %), all together"
        " −75.0 %."
    )
    page = made(of)
    show_answer(of)
    shown = " ".join(capsys.readouterr().out.split())
    for words in (answer(of), "400 ms", "600 ms", "700 ms", "800 ms", "0.4 % off", "−50.0 %", "trusted"):
        assert words in page.text and words in shown
    assert "figure-whatif" in page.ids and "A note." in page.text
    assert "contend whatif '<storm>' --verify AFTER" in page.text


def test_without_edits_the_fix_worth_most_leads() -> None:
    of = prediction((), (Fix((EDIT,), PREDICTED, 0.5, "it can be halved"),))
    assert answer(of).startswith("Worth most: --hold <db>=0.5. The median job would take 200 ms")
    page = made(of)
    assert "Before and after --hold <db>=0.5" in page.text and "if it can be halved" in page.text
    assert "recorded" in page.text and "50.0 %" in page.text


def test_what_cannot_be_predicted_is_not_called_worthless() -> None:
    of = prediction((), refused=(EDIT, Edit("remove", "claim")))
    assert answer(of) == (
        "No fix that suggests itself is known to gain anything. 2 of them cannot be predicted: --hold <db>=0.5,"
        " --remove claim."
    )
    assert "figure-whatif" not in made(of).ids


def test_a_refusal_shows_no_times() -> None:
    of = prediction((EDIT,))
    of = replace(of, gate=replace(of.gate, passed=False, reason="waits are not on record"))
    page = made(of)
    assert "--hold <db>=0.5: refused: waits are not on record." in page.text
    assert "figure-whatif" not in page.ids and "200 ms" not in page.text and "--verify" not in page.text


@pytest.mark.parametrize(
    ("low", "words", "count"),
    [
        (180 * MS, "What was measured lies inside of what was predicted.", "2 of 2"),
        (200 * MS, "What was measured lies outside of what was predicted.", "1 of 2"),
    ],
)
def test_a_verification_has_what_was_measured(low: int, words: str, count: str) -> None:
    compared = tuple(Compared(key, 200 * MS, low, 240 * MS, (195 * MS, 205 * MS)) for key in KEYS)
    inside = all(bool(one.inside) for one in compared)
    page = Read(
        render_verification(
            Verification((str(EDIT),), ("after",), compared, inside, None), "contend whatif p"
        )
    )
    assert (
        words in page.text
        and "200 ms (195–205 ms)" in page.text
        and count in page.text
        and "figure-whatif" in page.ids
    )


def test_the_figures_are_vega_lite() -> None:
    schema = json.loads(
        (Path(altair.__file__).parent / "vegalite/v6/schema/vega-lite-schema.json").read_text(
            encoding="utf-8"
        )
    )
    markup = render_prediction(prediction((EDIT,)), "a", "b")
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', markup, re.DOTALL)
    carried = json.loads(found[1] if found else "{}")
    [spec] = carried["charts"].values()
    spec["datasets"] = {name: unpacked(carried["rows"][name]) for name in spec["datasets"]}
    jsonschema.Draft7Validator({**schema, "$ref": "#/definitions/TopLevelLayerSpec"}).validate(
        json.loads(resolve(json.dumps(spec)))
    )
    assert {row["which"] for rows in spec["datasets"].values() for row in rows} == {"recorded", "predicted"}


def test_signs_are_minus_signs() -> None:
    assert [signed(v) for v in (-0.4871, -0.00001, 0.021)] == ["−48.7 %", "0 %", "+2.1 %"]
