"""A queue that deepens while throughput stays flat, on series with a known truth: saturated, whatever one takes alone."""

from __future__ import annotations

import numpy as np
import pytest

from contend.contention.alibi.ceiling import knees
from contend.contention.alibi.judge import judge
from contend.contention.alibi.recording import Recording
from contend.contention.alibi.verdict import Alibi
from support.alibi_series import MS, Host


def steps(rate: float, *depths: float, growth: float = 0.0, read_bytes: float = 65_536.0) -> Host:
    """A device that is never lightly loaded; each depth for 10 s. growth: how much faster it is at each step."""
    host = Host(seconds=10.0 * len(depths), noise=0.01)
    for number, depth in enumerate(depths):
        now = rate * (1 + growth) ** number
        start = -1 if number == 0 else 10 * number
        end = 10 * number + (11 if number == len(depths) - 1 else 10)
        host.load(start, end, reads=now, read_ns=depth / now * 1e9, read_bytes=read_bytes)
    return host


def last(host: Host) -> Alibi:
    return judge(Recording.of_tables(host.tables()), *host.span(host.seconds - 9, host.seconds))


@pytest.mark.parametrize("seed", range(5))
def test_a_disk_whose_queue_deepens_at_the_same_throughput(seed: int) -> None:
    draw = np.random.default_rng([77, seed])
    shallow = draw.uniform(1.1, 2.5)
    host = steps(draw.uniform(200, 5000), shallow, shallow * draw.uniform(2.4, 3.0))
    host.seed = seed
    found = last(host)
    assert found.verdict == "disk", found.text
    figures = {e.what: e.value for e in found.saturated[0].evidence}
    assert figures["requests in flight at which it did as much already"] == pytest.approx(shallow, rel=0.25)
    assert "did as much already" in found.text
    # Before the queue grew there was none to speak of.
    assert judge(Recording.of_tables(host.tables()), *host.span(1, 9)).verdict == "idle"


def test_a_disk_that_does_more_when_it_is_asked_for_more_has_room() -> None:
    assert last(steps(500, 1.5, 3, 6, growth=0.9)).verdict == "idle"
    # A fifth more for twice the depth: not flat.
    assert last(steps(2000, 1.5, 3.5, growth=0.2)).verdict == "idle"


def test_a_disk_that_does_less_is_another_load_not_a_ceiling() -> None:
    assert last(steps(2000, 1.5, 3.5, growth=-0.5)).verdict == "idle"


def test_a_disk_that_has_pauses_does_what_it_is_asked() -> None:
    """The same throughput in bursts: deep while there are any, and idle a third of the time."""
    host = steps(2000, 1.5, 4.0)
    assert last(host).verdict == "disk"
    tables = host.tables()
    disk = tables["disk"]
    later = disk["t_ns"] > host.span(10, 0)[0]
    step = np.diff(disk["busy_ns"], prepend=disk["busy_ns"][0]).astype(float) * np.where(later, 0.65, 1.0)
    disk["busy_ns"] = np.cumsum(step).astype(np.uint64)
    assert judge(Recording.of_tables(tables), *host.span(11, 20)).verdict == "idle"


def test_a_limit_above_the_device_is_not_called_one_request_after_the_other() -> None:
    """Requests that io.max holds back wait where the device does not see them."""
    host = Host().load(5, 15, reads=500, read_ns=0.1 * MS, io_wait=0.97)
    found = judge(Recording.of_tables(host.tables()), *host.span(5, 15))
    assert found.verdict == "idle"
    assert any("io.max" in note for note in found.notes)


def queue(*packets: float, sent: float = 1e7, growth: float = 0.0) -> Host:
    """An interface whose queue always holds so many packets, a step each 10 s, and refuses none."""
    host = Host(seconds=10.0 * len(packets))
    for number, count in enumerate(packets):
        host.load(
            10 * number, 10 * number + 10, sent=sent * (1 + growth) ** number, backlog=count, standing=1.0
        )
    return host


def test_a_network_queue_that_deepens_at_the_same_rate() -> None:
    found = last(queue(8, 40))
    assert found.verdict == "network", found.text
    assert any("sent as much already" in e.what for e in found.saturated[0].evidence)
    assert last(queue(8, 40, growth=0.5)).verdict == "idle"
    # A few packets more or less are the sender's bursts.
    assert last(queue(2, 6)).verdict == "idle"
    assert last(queue(40, 40)).verdict == "idle"


def test_one_odd_bin_is_no_knee() -> None:
    depth, rate, yes = np.array([1.0, 1.0, 8, 8, 8, 8]), np.full(6, 100.0), np.ones(6, dtype=bool)
    assert knees(depth > 2, [rate], depth, [rate], yes)[2:].tolist() == [8, 8, 8, 8]
    assert np.isnan(knees(depth > 2, [rate], depth[:2], [rate[:2]], yes[:2])).all()
    # A throughput that was zero, or not read, compares with nothing.
    broken = np.array([0.0, np.nan, 100, 100, 100, 100])
    assert np.isnan(knees(yes, [broken], depth, [broken], yes)[:2]).all()


def test_a_day_of_bins_is_searched_by_throughput() -> None:
    rng = np.random.default_rng(1)
    n = 172_800
    depth, rate = rng.uniform(1, 64, n), rng.lognormal(6, 1, n)
    found = knees(depth > 2, [rate, rate * 4096], depth, [rate, rate * 4096], depth > 0)
    assert np.isfinite(found[depth > 2]).mean() > 0.99
