"""What storms of 1, 2 and 5 servers on a real cloud say of 20: predicted beside measured, or refused with the evidence.

By the batch law from storms, and by a replay from the trace of one storm of 5. Brings up a bed of its own and takes it down;
needs MariaDB and RabbitMQ. About six minutes on a quiet machine; writes docs/results/boot-prediction.json and .md. A wrong
prediction that was trusted fails it; a refusal does not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from contend.contention.whatif.batches import measured, times
from contend.store.traces import SAMPLE
from contend.testbed.openstack.bed import CLOUD, Bed
from contend.workloads.generators import boot
from results.files import save
from results.pages import boot_prediction
from support.clouds import bed_command, own_bed
from support.command_line import CONTEND, Home
from support.generators import parameters_file
from support.kills import fresh_seed

pytestmark = pytest.mark.accept

SMALL, LARGE, TRACED = (1, 2, 5), 20, 5
STORM = ("run", "boot-storm", "--set", "measure.target=null", "--set", "measure.pilot=2")
KEYS = ("median_ns", "p90_ns", "makespan_ns")


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    with own_bed(tmp_path_factory.mktemp("prediction") / "bed", "--web-workers=1") as found:
        yield found


def test_twenty_from_five(bed: Bed, contend: Home) -> None:
    seed = fresh_seed()
    variables = {"OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml), "OS_CLOUD": CLOUD}
    small = storms(contend, variables, f"n={list(SMALL)}", 6, seed)
    law = asked(contend, small, "--jobs", str(LARGE))
    large = storms(contend, variables, f"n=[{LARGE}]", 3, seed)
    took = [times(document) for document in measured(large)[LARGE]]
    trace = traced_storm(bed.root, variables)
    replay = asked(contend, trace, "--jobs", str(LARGE))
    told = {
        "jobs": LARGE,
        "traced": TRACED,
        "small": {str(n): [times(d).to_json() for d in of] for n, of in measured(small).items()},
        "large": [one.to_json() for one in took],
        "batch law": law,
        "replay": replay,
    }
    text = json.dumps(told, indent=1)
    for place in (small.parent, trace.parent):  # paths of this machine are no result
        text = text.replace(f"{place}/", "")
    told = json.loads(text)
    save("boot-prediction", told, seed=seed)
    wrong = [
        (name, key)
        for name in ("batch law", "replay")
        for key in KEYS
        if told[name]["gate"]["passed"]
        and outside(told[name]["predicted"][key], [o[key] for o in told["large"]])
    ]
    assert not wrong, boot_prediction.body(told)


def storms(contend: Home, variables: dict[str, str], sizes: str, blocks: int, seed: int) -> Path:
    known = set(contend.run_directories())
    settings = ("--set", sizes, "--set", f"measure.blocks={blocks}", "--seed", str(seed))
    contend(*STORM, *settings, "--json", timeout=600, env={**variables}).fine()
    (run,) = set(contend.run_directories()) - known
    return run


def asked(contend: Home, source: Path, *words: str) -> dict[str, Any]:
    said = contend("whatif", str(source), *words, "--json", timeout=300)
    assert said.code in (0, 5), said
    found: dict[str, Any] = said.json()
    return found


def traced_storm(root: Path, variables: Mapping[str, str]) -> Path:
    """The services under the recorder, the host beside them, and one storm after one server that warms them up."""
    place = root.parent / "trace"
    bed_command(root, "up", "--traced", str(place), "--cpu-times")
    sample = [CONTEND, "sample", "-i", "100ms", "-o", str(place / SAMPLE), "--for", "120s"]
    work = root.parent / "run" / "work" / "storm"
    out = work.parent / "trials/000001"
    for directory in (work, out):
        directory.mkdir(parents=True)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        assert boot.main(["prepare", parameters_file("boot-storm", work, work, cloud=CLOUD)]) == 0
        with subprocess.Popen(sample, stdout=subprocess.DEVNULL) as sampler:
            time.sleep(2)
            asked = parameters_file("boot-storm", work, out, cloud=CLOUD, n=TRACED)
            assert boot.main(["storm", asked]) == 0
            time.sleep(1)
            sampler.send_signal(signal.SIGINT)
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    bed_command(root, "down")
    return place


def outside(predicted: Mapping[str, float | None], took: list[float]) -> bool:
    """Whether a storm lay outside of the interval; without one, whether the mean is more than 10 % off."""
    low, high = predicted["low"], predicted["high"]
    if low is None or high is None:
        mean = sum(took) / len(took)
        return abs(float(predicted["value"] or 0) - mean) > 0.1 * mean
    return not all(low <= one <= high for one in took)
