"""`contend stats FILE.csv --scaling`: laws from a file, in words and as a document; what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from contend.cli.stats_ import command
from contend.errors import BadInput, NoVerdict
from contend.stats.scaling_csv import StormLaw
from contend.stats.sustained import throughput
from contend.text.shape import schema
from support.answers import data_in

STORMS = "jobs,value\n" + "".join(f"{n},{10 + 5 * n + 0.1 * k}\n" for n in (4, 8, 16, 32) for k in range(2))
STEADY = "jobs,value\n" + "".join(f"{n},{throughput([0.02], 0.1, n)}\n" for n in (1, 2, 4, 6, 8, 16, 32))


def told(path: Path, text: str, *options: str) -> Result:
    file = path / "file.csv"
    file.write_text(text)
    return CliRunner().invoke(command, [str(file), *options])


def test_storms(tmp_path: Path) -> None:
    result = told(tmp_path, STORMS, "--scaling", "storm", "--at", "128", "--limit", "330", "--json")
    document = data_in(result.output)
    assert document["law"] == "batch" and document["slope"]["value"] == pytest.approx(5, rel=0.01)
    assert document["at"]["low"] < 650 < document["at"]["high"]
    assert document["breaks"]["low"] < 64 < document["breaks"]["high"]
    assert document["held_out"]["jobs"] == 32 and document["held_out"]["inside"]
    words = told(tmp_path, STORMS, "--scaling", "storm", "--at", "128", "--limit", "330").output
    assert (
        "per extra job: 5" in words and "at N = 128: 65" in words and "longer than 330 from N = 64" in words
    )


def test_a_steady_number_of_jobs(tmp_path: Path) -> None:
    document = data_in(told(tmp_path, STEADY, "--scaling", "sustained", "--at", "64", "--json").output)
    assert document["law"] == "closed" and document["closed"]["demand"]["value"] == pytest.approx(0.02)
    assert document["at"]["value"] == pytest.approx(50, rel=0.01)
    words = told(tmp_path, STEADY, "--scaling", "sustained").output
    assert "closed, demand: 0.02" in words and "usl, contention" in words and "held out" in words


@pytest.mark.parametrize(
    ("text", "options", "kind", "words"),
    [
        (STORMS, ("--scaling", "storm", "--at", "999"), NoVerdict, "cannot be told"),
        ("jobs,value\n4,1\n4,1\n", ("--scaling", "storm"), BadInput, "no line with an interval"),
        ("jobs,value\n4,1\n8,fast\n", ("--scaling", "storm"), BadInput, "line 3"),
        ("jobs,value\n4.5,1\n", ("--scaling", "storm"), BadInput, "4.5 jobs"),
        ("n,value\n4,1\n", ("--scaling", "storm"), BadInput, "no column 'jobs'"),
        (STEADY, ("--scaling", "sustained", "--limit", "3"), BadInput, "--limit goes with"),
        ("jobs,value\n1,5\n2,9\n", ("--scaling", "sustained"), NoVerdict, "cannot be told"),
        (STORMS, ("--at", "3"), BadInput, "go with --scaling"),
        (STORMS, ("--scaling", "storm", "--baseline", "a"), BadInput, "--baseline"),
    ],
)
def test_what_cannot_be_told_is_refused(
    tmp_path: Path, text: str, options: tuple[str, ...], kind: type[Exception], words: str
) -> None:
    error = told(tmp_path, text, *options).exception
    assert isinstance(error, kind) and words in str(error)


@pytest.mark.parametrize(
    ("storms", "held"), [((4, 4, 8, 16), True), ((4, 8, 16), False), ((4, 4, 4, 8, 8), False)]
)
def test_the_largest_size_is_held_out_from_three_sizes_on(
    tmp_path: Path, storms: tuple[int, ...], held: bool
) -> None:
    text = "jobs,value\n" + "".join(f"{n},{10 + 5 * n + k / 10}\n" for k, n in enumerate(storms))
    document = data_in(told(tmp_path, text, "--scaling", "storm", "--json").output)
    assert (document["held_out"] is not None) == held
    about = schema(StormLaw)["properties"]["held_out"]["description"]
    assert about == "null with fewer than three sizes, or three storms below the largest"
