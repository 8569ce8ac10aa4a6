"""What OpenStack's services are made of beyond the standard library: futurist's pools, locks named by a UUID."""

from __future__ import annotations

from pathlib import Path

from contend.contention.whatif.storms import open_storms
from support.ctrace_events import BEGIN, FLOW_IN, FLOW_OUT, LOCK_ACQUIRED, LOCK_WAIT, QUEUE_GOT
from support.traced_program import traced

POOLS = """
    import threading, time, warnings
    warnings.simplefilter("ignore")  # futurist imports eventlet where there is one
    import futurist

    def build(number): time.sleep(0.15); return number
    def query(): pass

    named, unnamed = futurist.ThreadPoolExecutor(1), futurist.DynamicThreadPoolExecutor(4)
    named.name = "MainProcess.default"  # as nova does, after it is made
    results = [named.submit(build, number) for number in (1, 2)]
    unnamed.submit(query).result()
    assert [result.result() for result in results] == [1, 2]
    assert named.statistics.executed == 2 and named.queue_size == 0
    failed = named.submit(build)
    assert isinstance(failed.exception(), TypeError)
    for pool in (named, unnamed): pool.shutdown()
    try: named.submit(query)
    except RuntimeError: pass
    else: raise AssertionError
    with futurist.GreenThreadPoolExecutor(1) as green: assert green.submit(build, 3).result() == 3
"""


def test_pools_of_futurist(tmp_path: Path) -> None:
    (told,) = traced(tmp_path, POOLS)
    begun = [event for event in told.of(BEGIN) if event.name in ("build", "query")]
    assert [event.name for event in begun].count("build") == 4
    assert all(event.args["kind"] == "submitted" for event in begun)
    # The second waited for the first, in a pool of one.
    queued = sorted(int(str(event.args["queued_ns"])) for event in begun if event.name == "build")
    assert queued[-1] > 50_000_000
    sent, received = (
        {event.value for event in told.of(kind) if event.name == "submit"} for kind in (FLOW_OUT, FLOW_IN)
    )
    assert received and received <= sent
    queues = {event.name.partition(" (")[0] for event in told.of(QUEUE_GOT)}
    assert queues == {"MainProcess.default", "DynamicThreadPoolExecutor"}


def test_a_pool_of_connections_says_its_size(tmp_path: Path) -> None:
    """Two of three connections are used at a time, and nobody waits: a replay knows of the third."""
    traced(
        tmp_path,
        """
        import threading, time
        from contend import trace
        from oslo_messaging._drivers.pool import Pool

        class Connections(Pool):
            def create(self, retry=None):
                return object()

        connections = Connections(max_size=3)
        def order():
            with trace.job("order"):
                connection = connections.get()
                time.sleep(0.03)
                connections.put(connection)
        threads = [threading.Thread(target=order) for _ in range(6)]
        for thread in threads: thread.start(); time.sleep(0.02)
        for thread in threads: thread.join()
        """,
    )
    (source,) = open_storms([tmp_path / "t"])
    (pool,) = [row for row in source.storm.parts()["locks"] if row["name"] == "Pool._cond"]
    assert pool["capacity"] == 3 and pool["seen"] is None


def test_locks_of_one_purpose_go_by_one_name(tmp_path: Path) -> None:
    (told,) = traced(
        tmp_path,
        """
        import threading, time, uuid, warnings
        warnings.simplefilter("ignore")
        from contend import trace
        from oslo_concurrency import lockutils
        first, second = (str(uuid.uuid4()) for _ in range(2))
        def build(instance):
            with trace.job("build"), lockutils.lock(f"refresh_cache-{instance}"): time.sleep(0.2)
        threads = [threading.Thread(target=build, args=(instance,)) for instance in (first, second, first)]
        for thread in threads: thread.start(); time.sleep(0.02)
        for thread in threads: thread.join()
        """,
    )
    taken = [event for event in told.of(LOCK_ACQUIRED) if event.name == "refresh_cache-*"]
    # Two locks: only who asks for one that is held waits.
    assert len(taken) == 3 and len({event.value for event in taken}) == 2
    assert len([event for event in told.of(LOCK_WAIT) if event.name == "refresh_cache-*"]) == 1
    (source,) = open_storms([tmp_path / "t"])
    found = [row for row in source.storm.parts()["locks"] if row["name"] == "refresh_cache-*"]
    assert found and all(row["capacity"] == 1 and row["seen"] is None for row in found)
