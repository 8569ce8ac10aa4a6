"""Many users at once: what two tools say of the same burst, and a burst in which a request fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contend.workloads.generators import burst
from support.generators import parameters_file

AB = """This is ApacheBench, Version 2.3 <$Revision: 1 $>
Time taken for tests:   2.500 seconds
Complete requests:      4
Failed requests:        {failed}
   (Connect: 0, Receive: 0, Length: 0, Exceptions: 0)
{more}"""
AB_TIMES = """starttime\tseconds\tctime\tdtime\tttime\twait
Sun Nov 22 03:24:27 2026\t1\t0\t165\t100\t110
Sun Nov 22 03:24:27 2026\t1\t0\t165\t300\t110
Sun Nov 22 03:24:27 2026\t1\t0\t165\t200\t110
Sun Nov 22 03:24:27 2026\t1\t0\t165\t1000\t110
"""
JTL = """timeStamp,elapsed,label,responseCode,responseMessage,success
1000,100,front page,200,OK,true
1010,300,front page,200,OK,true
1000,200,"front, page",200,OK,{success}
1000,1000,front page,200,OK,true
"""


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    return directory


def program(bin_: Path, name: str, writes: str, says: str = "", code: int = 0) -> None:
    """A stand-in that writes `writes` where the last -g or -l says, says `says`, and leaves its arguments in NAME.args."""
    (bin_ / f"{name}.says").write_text(says)
    (bin_ / f"{name}.writes").write_text(writes)
    text = f"""#!/bin/sh
printf '%s ' "$@" >"{bin_}/{name}.args"
while [ $# -gt 1 ]; do
    case $1 in
    -g | -l) case $2 in -*) ;; *) cp "{bin_}/{name}.writes" "$2" ;; esac ;;
    -j) echo "o.a.j.JMeter: Version 5.6.3" >"$2" ;;
    esac
    shift
done
cat "{bin_}/{name}.says"
exit {code}
"""
    (bin_ / name).write_text(text)
    (bin_ / name).chmod(0o755)


def load(tmp_path: Path, loader: str) -> int:
    return burst.main(["run", parameters_file("wordpress", tmp_path, tmp_path, 1, requests=4, loader=loader)])


def result(tmp_path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((tmp_path / "burst.json").read_text())
    return found


def test_apachebench_tells_the_time_of_each_request(
    tmp_path: Path, bin_: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(bin_, "ab", AB_TIMES, AB.format(failed=0, more=""))
    assert load(tmp_path, "ab") == 0
    assert result(tmp_path) == json.loads(capsys.readouterr().out)
    assert result(tmp_path) == {
        "schema_version": 1,
        "loader": "ApacheBench, Version 2.3",
        "requests": 4,
        "failed": 0,
        "response_time_s": {"mean": 0.4, "p50": 0.2, "p99": 1.0, "max": 1.0},
        "took_s": 2.5,
        "throughput_per_s": 1.6,
    }
    assert "-n 4 -c 4 " in (bin_ / "ab.args").read_text()


@pytest.mark.parametrize(("loader", "name"), [("jmeter", "jmeter"), ("/opt/ApacheJMeter.jar", "java")])
def test_jmeter_tells_the_same(loader: str, name: str, tmp_path: Path, bin_: Path) -> None:
    program(bin_, name, JTL.format(success="true"))
    assert load(tmp_path, loader) == 0
    assert result(tmp_path)["loader"] == "JMeter 5.6.3"
    assert result(tmp_path)["response_time_s"] == {"mean": 0.4, "p50": 0.2, "p99": 1.0, "max": 1.0}
    assert result(tmp_path)["took_s"] == 1.0
    assert (
        (bin_ / f"{name}.args").read_text().startswith("-n -t" if name == "jmeter" else f"-jar {loader} -n")
    )


@pytest.mark.parametrize(
    ("said", "times", "failed"),
    [
        (AB.format(failed=1, more=""), AB_TIMES, 1),
        (AB.format(failed=0, more="Non-2xx responses:      2\n"), AB_TIMES, 2),
        (AB.format(failed=0, more=""), AB_TIMES.rsplit("Sun", 1)[0], 1),
    ],
)
def test_a_burst_in_which_a_request_fails_is_no_measurement(
    said: str, times: str, failed: int, tmp_path: Path, bin_: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(bin_, "ab", times, said)
    assert load(tmp_path, "ab") == 1
    assert f"{failed} of 4 requests failed (ApacheBench, Version 2.3)" in capsys.readouterr().err
    assert not (tmp_path / "burst.json").exists()


def test_a_sample_that_jmeter_calls_no_success_fails_the_burst(
    tmp_path: Path, bin_: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(bin_, "jmeter", JTL.format(success="false"))
    assert load(tmp_path, "jmeter") == 1
    assert "1 of 4 requests failed (JMeter 5.6.3)" in capsys.readouterr().err


def test_a_loader_that_fails_or_is_none_is_named(
    tmp_path: Path, bin_: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program(bin_, "ab", "", "apr_socket_connect(): Connection refused (111)\n", code=111)
    assert load(tmp_path, "ab") == 1
    assert (
        "ab ended with exit status 111: apr_socket_connect(): Connection refused" in capsys.readouterr().err
    )
    assert load(tmp_path, "jmeter") == 1
    assert "jmeter: No such file or directory" in capsys.readouterr().err
    assert load(tmp_path, "siege") == 2
    assert "'loader: siege' is no loader" in capsys.readouterr().err
