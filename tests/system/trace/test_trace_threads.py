"""Many threads, more events than there is room for, recording on and off meanwhile: nothing is lost uncounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.ctrace_events import LOCK_ACQUIRED, LOCK_RELEASED, LOCK_WAIT, read, record, run


def test_a_thousand_threads(tmp_path: Path) -> None:
    told = record(
        """
        import threading
        lock = trace.Lock(name="L")
        barrier = threading.Barrier(1000)
        @trace.traced(name="f")
        def f(depth):
            if depth: f(depth - 1)
            else:
                with lock: pass
        def work():
            barrier.wait()
            for _ in range(20): f(3)
        trace.start(DIRECTORY)
        threads = [threading.Thread(target=work, name=f"t{n}") for n in range(1000)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(trace.stop())
        """,
        tmp_path,
    )
    assert told.lost == 0 and len(told.spans()) == 1000 * 20 * 4
    assert {f"t{number}" for number in range(1000)} <= {track.name for track in told.tracks.values()}


@pytest.mark.parametrize("overflow", ["drop", "block"])
def test_more_than_there_is_room_for(overflow: str, tmp_path: Path) -> None:
    told = record(
        f"""
        import threading
        @trace.traced(name="f")
        def f(depth):
            if depth: f(depth - 1)
        def work():
            for _ in range(2000): f(100)
        trace.start(DIRECTORY, buffer_bytes=64 << 10, overflow={overflow!r})
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        status = trace.stop()
        print(status.lost, status.events)
        """,
        tmp_path,
    )
    spans = told.spans()  # balanced, whatever was lost
    if overflow == "block":
        assert told.lost == 0 and len(spans) == 3 * 2000 * 101
    else:
        # Every call is on record whole, or counted once as a lost begin.
        assert told.lost > 0 and len(spans) + told.lost == 3 * 2000 * 101


def test_memory_stays_bounded(tmp_path: Path) -> None:
    """Ten million events, arguments that never repeat, tracks and locks that come and go."""
    done = run(
        """
        import resource, threading
        @trace.traced(name="f")
        def f(): pass
        def some(count, texts):
            for _ in range(count): f()
            for number in range(texts): trace.instant("i", id=f"request-{number}-{count}")
            for _ in range(texts // 100):
                thread = threading.Thread(target=trace.Lock().acquire); thread.start(); thread.join()
        trace.start(DIRECTORY, overflow="block", buffer_bytes=8 << 20)
        some(10_000, 10_000)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        some(5_000_000, 100_000)
        status = trace.stop()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, status.events, status.bytes, status.lost)
        """,
        tmp_path,
    )
    grown_kb, events, size, lost = map(int, done.stdout.split())
    assert lost == 0 and events > 10_000_000 and grown_kb < 40_000
    assert size / events < 20


def test_threads_wait_for_each_other_under_fire(tmp_path: Path) -> None:
    """Contended locks while recording is switched on and off at random in threads of their own."""
    run(
        """
        import random, threading, time
        locks = [trace.Lock(), trace.RLock()]
        end = time.monotonic() + 3
        def work(seed):
            draw = random.Random(seed)
            while time.monotonic() < end:
                with trace.span("s", n=seed), draw.choice(locks):
                    if draw.random() < 0.1: time.sleep(1e-5)
        def switch(seed):
            draw = random.Random(seed)
            while time.monotonic() < end:
                try: trace.start(DIRECTORY, buffer_bytes=128 << 10)
                except Exception as error: assert "already recording" in str(error), error
                time.sleep(draw.random() * 0.01)
                trace.flush() if draw.random() < 0.5 else trace.stop()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        threads += [threading.Thread(target=switch, args=(n,)) for n in range(2)]
        for t in threads: t.start()
        for t in threads: t.join()
        """,
        tmp_path,
    )
    traces = [read(path) for path in tmp_path.glob("*.ctrace")]
    assert len(traces) > 10 and all(told.ended and not told.torn for told in traces)
    assert any(told.of(LOCK_WAIT) for told in traces)


def test_locks_released_by_others(tmp_path: Path) -> None:
    """A Lock may be let go by any thread: each hold ends once, at its release."""
    told = record(
        """
        import queue, threading
        lock, taken = trace.Lock(name="L"), queue.SimpleQueue()
        def take():
            for _ in range(500):
                lock.acquire()
                taken.put(1)
        def give():
            for _ in range(1500):
                taken.get()
                lock.release()
        trace.start(DIRECTORY)
        threads = [threading.Thread(target=take) for _ in range(3)] + [threading.Thread(target=give)]
        for t in threads: t.start()
        for t in threads: t.join()
        trace.stop()
        """,
        tmp_path,
    )
    events = sorted(told.of(LOCK_ACQUIRED, LOCK_RELEASED), key=lambda event: event.ticks)
    assert [event.kind for event in events] == [LOCK_ACQUIRED, LOCK_RELEASED] * 1500
    assert told.of(LOCK_WAIT) and len({event.track for event in told.of(LOCK_RELEASED)}) == 1


def test_a_lock_is_on_record_while_its_name_is_found_out(tmp_path: Path) -> None:
    """What finds the name lets other threads run: what they do with the lock meanwhile has its number already."""
    told = record(
        """
        import threading, time
        from contend.trace import names
        describe, inside = names.describe, threading.Event()
        def slow(*args):
            inside.set(); time.sleep(0.3)
            trace.flush()
            return describe(*args)
        names.describe = slow
        def use():
            with lock: pass
        trace.start(DIRECTORY)
        lock = trace.Lock()
        first = threading.Thread(target=use, name="first")
        first.start()
        inside.wait()
        for _ in range(5): use()
        first.join()
        trace.stop()
        """,
        tmp_path,
    )
    assert len(told.of(LOCK_ACQUIRED)) == 6 and len(told.locks) == 1
    assert {event.name for event in told.of(LOCK_ACQUIRED, LOCK_RELEASED)} == {"lock"}
