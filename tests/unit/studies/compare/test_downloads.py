"""What a download study finds: made figures with a known truth, block by block."""

from __future__ import annotations

import io
import random
from pathlib import Path

from rich.console import Console

from contend.cli.common import load_report
from contend.document import CellResult, Level, MetricInfo
from contend.probes.observed import Observations
from contend.report.html import render_html
from contend.report.terminal import show
from contend.stats.compare import compare
from contend.stats.levels import level
from contend.studies.compare.downloads import answer, download_findings, sides
from contend.studies.compare.model import Compare
from support.made_context import DOWNLOAD, IMAGE, costs_run

# CPU seconds per 10^9 bytes of each variant; a block's own drift is the same for all.
TRUTH = {
    ("curl", "http", "none"): 0.30,
    ("fetch", "http", "none"): 0.20,
    ("reader", "http", "none"): 0.01,
    ("curl", "https", "none"): 0.60,
    ("fetch", "https", "none"): 0.30,
    ("fetch", "http", "sha512"): 1.00,
    ("glanceclient", "http", "sha512"): 2.50,
}
METRIC = MetricInfo("client_cpu", "s", "lower", "", primary=True)


def _scenario() -> Compare:
    variants = [
        {"name": " ".join(key), "parameters": dict(zip(("client", "scheme", "checksum"), key, strict=True))}
        for key in TRUTH
    ]
    return Compare.model_validate({"study": "compare", "workload": "image-download", "variants": variants})


def _results(blocks: int, noise: float = 0.01) -> list[CellResult]:
    draws = random.Random(1)
    drift = [1 + 0.1 * draws.random() for _ in range(blocks)]
    values = {
        " ".join(key): [true * d * (1 + noise * draws.uniform(-1, 1)) for d in drift]
        for key, true in TRUTH.items()
    }
    levels = {
        name: Level(level(told, "s"), tuple(told), tuple(range(blocks)), ()) for name, told in values.items()
    }
    first, *others = levels
    return [
        CellResult(
            name,
            {"variant": name},
            METRIC,
            levels[first],
            levels[name],
            compare(values[first], values[name]),
            Observations(),
            Observations(),
        )
        for name in others
    ]


def test_the_dearest_what_https_adds_and_what_verifying_adds() -> None:
    found = download_findings(_scenario(), _results(12), "contend run image-download", seed=3)
    assert [f.id for f in found] == [f"F{n}" for n in range(1, len(found) + 1)]
    by_kind: dict[str, list[str]] = {}
    for finding in found:
        by_kind.setdefault(finding.kind, []).append(finding.sentence)
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high
    # Three ways on which there are two clients or more; the reader is none.
    verified = next(s for s in by_kind["dearest-client"] if "verified by sha512" in s)
    assert "python-glanceclient takes most" in verified
    assert "what contend fetch takes" in verified
    assert len(by_kind["dearest-client"]) == 3
    assert not any("reader" in sentence for sentence in by_kind["dearest-client"])
    # The one that pays most for it first.
    (tls,) = by_kind["https-cost"]
    assert tls.startswith("HTTPS, not verified: curl 2.0")
    (checked,) = by_kind["verification-cost"]
    assert checked.startswith("Verifying by sha512, HTTP: contend fetch 5.0")
    assert answer(found) == found[0].sentence == verified


def test_the_truth_is_in_the_intervals() -> None:
    found = download_findings(_scenario(), _results(20), "run", seed=3)
    ratios = {f.subject: f.estimate for f in found}
    told = ratios["glanceclient http sha512"]
    assert told.low <= 2.5 <= told.high
    assert told.verdict == "higher"
    assert told.n == 20


def test_too_few_blocks_find_nothing() -> None:
    found = download_findings(_scenario(), _results(3), "run", seed=3)
    assert found == ()
    assert answer(found) == ""


def test_what_is_verified_names_both_sides() -> None:
    found = download_findings(_scenario(), _results(12), "contend run image-download", seed=3)
    tls = next(f for f in found if f.kind == "https-cost")
    assert "--set 'variants=[{name: curl http none" in tls.verify
    assert "name: curl https none" in tls.verify
    assert {e.what for e in tls.evidence} >= {"curl, of CPU time per 10^9 bytes"}


def test_a_variant_without_figures_is_no_side() -> None:
    results = [r for r in _results(12) if "glanceclient" not in r.factors["variant"]]
    assert len(sides(_scenario(), results)) == len(TRUTH) - 1
    assert len(sides(_scenario(), [])) == 0


def test_a_real_glance_has_the_same_findings() -> None:
    """By its own URL, and by HTTPS of a proxy before it, which is called that."""
    spoken = {"http": "cloud", "https": "tls-proxy"}
    variants = [
        v.model_copy(update={"parameters": {**v.parameters, "scheme": spoken[str(v.parameters["scheme"])]}})
        for v in _scenario().variants
    ]
    scenario = _scenario().model_copy(
        update={"workload": "image-download-glance", "variants": tuple(variants)}
    )
    found = download_findings(scenario, _results(12), "run", seed=3)
    said = [finding.sentence for finding in found]
    assert any(s.startswith("By Glance's own URL, verified by sha512, python-glanceclient") for s in said)
    assert any(s.startswith("By HTTPS of a TLS proxy before Glance, not verified, curl") for s in said)
    (tls,) = (finding for finding in found if finding.kind == "https-cost")
    assert tls.sentence.startswith("HTTPS of a TLS proxy before Glance, not verified: curl 2.0")
    assert tls.sentence.endswith("what it takes by HTTP.")


def test_a_variant_that_says_nothing_of_the_scheme_is_the_clouds_own() -> None:
    scenario = _scenario().model_copy(update={"workload": "image-download-glance"})
    silent = [
        v.model_copy(update={"parameters": {k: p for k, p in v.parameters.items() if k != "scheme"}})
        for v in scenario.variants
    ]
    told = sides(scenario.model_copy(update={"variants": tuple(silent)}), _results(12))
    assert {side.parameters["scheme"] for side in told} == {"cloud"}


def test_a_run_says_them_on_the_terminal_and_on_its_page(tmp_path: Path) -> None:
    run = costs_run(tmp_path, {"client_cpu": 0.5}, text=IMAGE, base=DOWNLOAD)
    report = load_report(run)
    (finding,) = report.analysis.findings
    assert finding.sentence.startswith("By HTTP, not verified, curl takes most: 2.0")
    assert report.analysis.answer == finding.sentence
    out = io.StringIO()
    show(report, Console(file=out, width=200, no_color=True, force_terminal=False))
    assert finding.sentence in out.getvalue()
    assert "Where the choice is yours: contend fetch." in out.getvalue()
    page = render_html(report)
    assert '<h2 id="findings">' in page
    assert "curl takes most" in page
