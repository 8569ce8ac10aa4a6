"""What the envelope is of a whole cloud, of two real runs: calls over RabbitMQ, and storms on a test bed of the test's own
whose services are recorded with CPU times. About ten minutes."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from contend.document.context import Context
from contend.testbed.openstack.cloud import variables
from contend.text.shape import schema
from support.clouds import STORM, own_bed
from support.command_line import Home

pytestmark = pytest.mark.accept

STUDY = """\
study: compare
workload: rpc
parameters: {rate: 50}
variants: [{name: envelope}, {name: JSON once, parameters: {envelope: false}}]
measure: {target: null, blocks: 6, pilot: 1, trial: 2s, seed: 5, design: pairs}
"""
STORMS = ("n=[1,3]", "measure.blocks=6", "measure.most=6", "parameters.quiet=5")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("context")


def test_the_envelope_in_a_storm(place: Path, contend: Home) -> None:
    traces = place / "traces"
    with own_bed(place / "bed", "--traced", str(traces), "--cpu-times", "--threads", "native") as bed:
        words = [word for each in (*STORMS, f"parameters.traces={traces}") for word in ("--set", each)]
        contend(*STORM, *words, timeout=900, env={**variables(bed)}).fine()
    storm = contend.the_run()
    study = contend.path / "study.yaml"
    study.write_text(STUDY, encoding="utf-8")
    contend("run", str(study), timeout=900).fine()
    (run,) = set(contend.run_directories()) - {storm}

    # The newest storm beside it is found, and so is the one that is named.
    found = contend("context", str(run), "--of", str(storm), "--json").fine().json()
    jsonschema.validate(found, schema(Context))
    told = contend("report", str(run), "--json").fine().json()
    assert told["context"]["of"] == found["of"] == storm.name
    assert told["context"]["variants"] == found["variants"]

    ends, broker = found["shares"]
    assert (ends["how"], ends["bound"], broker["how"]) == ("traces", "at least", "role")
    by = {share["what"]: share["estimate"] for share in found["beside"]}
    # A boot of Nova is about twenty calls; more than that is not known before.
    assert 0.001 < ends["estimate"]["low"] < ends["estimate"]["high"] < 0.5
    assert 0.2 < by["client and service"]["value"] / ends["estimate"]["value"] < 5, (
        "two ways to know one share"
    )
    first = by["the serialisation that the envelope adds"]["value"]
    assert 0 < first < ends["estimate"]["value"]
    (variant,) = found["variants"]
    whole = found["share"]["value"] * (variant["cost"]["value"] - 1)
    assert variant["effect"]["value"] == pytest.approx(whole, rel=1e-6)
    assert abs(variant["effect"]["value"]) < found["share"]["value"]
    assert (found["path"]["how"], found["path"]["bound"]) == ("traces", ""), (
        "boots are followed from the request on"
    )
    assert 0 < found["path"]["estimate"]["value"] < 1
    print(contend("context", str(run), "--of", str(storm)).fine().out)
