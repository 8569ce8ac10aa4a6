"""The standard library's locks, queues, pools, threads and processes, in programs that know nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.answers import data_in
from support.ctrace_events import (
    BEGIN,
    FLOW_IN,
    FLOW_OUT,
    LOCK_GIVEN_UP,
    LOCK_LIMIT,
    LOCK_WAIT,
    QUEUE_GOT,
    QUEUE_PUT,
    Event,
    Trace,
)
from support.traced_program import traced


def waits(told: Trace, name: str) -> list[Event]:
    return [wait for wait in told.of(LOCK_WAIT) if wait.name == name]


def holders(told: Trace, name: str) -> set[str]:
    """Names of the tracks that held it when others began to wait."""
    return {told.tracks[wait.value].name if wait.value else "" for wait in waits(told, name)}


def flows(*all_: Trace) -> dict[str, tuple[set[object], set[object]]]:
    """Numbers sent and received, by name."""
    result: dict[str, tuple[set[object], set[object]]] = {}
    for told in all_:
        for event in told.of(FLOW_OUT, FLOW_IN):
            result.setdefault(event.name, (set(), set()))[event.kind == FLOW_IN].add(event.args[""])
    return result


def test_tasks_of_asyncio_wait_for_tasks(tmp_path: Path) -> None:
    (told,) = traced(
        tmp_path,
        """
        import asyncio, copy, functools, pickle
        class Service:
            def __init__(self):
                self.lock = asyncio.Lock()
                self.gate = asyncio.Semaphore(1)
                self.many = asyncio.BoundedSemaphore(2)
                self.ready = asyncio.Event()
                self.changed = asyncio.Condition()
                self.tasks = asyncio.Queue(1)
        async def work(service, number, log):
            for step, lock in enumerate((service.lock, service.gate, service.many)):
                async with lock:
                    log.append((id(lock), number)); await asyncio.sleep(0.002 * 4**step)
            await service.ready.wait()
            async with service.changed:
                arrived.append(number)
                await service.changed.wait()
            assert await service.tasks.get() is not None
        def native(number): return number
        arrived = []
        async def main():
            service, log = Service(), []
            copy.deepcopy(service.lock); pickle.loads(pickle.dumps(service.lock))
            tasks = [asyncio.create_task(work(service, n, log), name=f"w{n}") for n in range(3)]
            while len(log) < 9: await asyncio.sleep(0.01)
            await asyncio.sleep(0.25); service.ready.set()
            while len(arrived) < 3: await asyncio.sleep(0.01)
            async with service.changed: service.changed.notify_all()
            for item in range(3): await service.tasks.put(item)
            await asyncio.gather(*tasks)
            await service.lock.acquire()
            for awaited in (service.lock.acquire(), service.tasks.get()):
                try: await asyncio.wait_for(awaited, 0.01)
                except TimeoutError: pass
                else: raise AssertionError
            service.lock.release()
            try: service.many.release()
            except ValueError: pass
            else: raise AssertionError
            assert not service.lock.locked() and asyncio.iscoroutinefunction(service.lock.acquire)
            assert await asyncio.to_thread(native, 1) == 1
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(None, functools.partial(native, 2)) == 2
            pending = asyncio.create_task(work(service, 9, log), name="left")
            await asyncio.sleep(0)
        asyncio.run(main())
        """,
    )
    assert holders(told, "Service.lock") == {"w0", "main"}
    assert holders(told, "Service.gate") <= {"w0", "w1", ""} and waits(told, "Service.gate")
    for name in ("Service.many", "Service.ready", "Service.changed", "Service.tasks"):
        assert waits(told, name), name
    assert {event.name for event in told.of(LOCK_GIVEN_UP)} >= {"Service.lock", "Service.tasks"}
    sent, received = flows(told)["submit"]
    assert len(sent) == 2 and sent == received
    made, begun = flows(told)["spawn"]
    assert set(begun) <= set(made) and len(begun) == len(made) >= 5
    spans = {name: track for track, name, *_ in told.spans()}
    assert told.tracks[spans["native"]].kind == 1


def test_threads_their_ends_events_barriers_and_simple_queues(tmp_path: Path) -> None:
    (told,) = traced(
        tmp_path,
        """
        import _thread, queue, threading, time
        from concurrent.futures import ThreadPoolExecutor
        class Service:
            def __init__(self):
                self.ready = threading.Event()
                self.barrier = threading.Barrier(2)
                self.tasks = queue.SimpleQueue()
            def work(self):
                self.ready.wait(); self.barrier.wait(); self.tasks.get()
                over.acquire(); time.sleep(0.2)
        class Own(threading.Thread):
            def run(self): time.sleep(0.2)
        over = _thread.allocate_lock(); over.acquire()
        service = Service()
        thread = threading.Thread(target=service.work, name="worker"); thread.start()
        time.sleep(0.2); service.ready.set(); service.barrier.wait(); time.sleep(0.2); service.tasks.put(1)
        thread.join(0.001); assert thread.is_alive(); over.release(); thread.join(); assert not vars(thread).get("run")
        own = Own(name="own"); own.start(); own.join()
        try: own.start()
        except RuntimeError: pass
        else: raise AssertionError
        try: service.tasks.get(timeout=0.01)
        except queue.Empty: pass
        else: raise AssertionError
        def slow(number): time.sleep(0.2); return number
        def begin(): threading.current_thread().begun = True
        with ThreadPoolExecutor(1, initializer=begin) as pool:
            first = pool.submit(slow, 1)
            second = pool.submit(lambda: first.result() + 1)
            time.sleep(0.005)
            assert first.result() == 1
            assert (second.result(), list(pool.map(slow, [3], timeout=5))) == (2, [3])
            try: pool.submit(int, "x").result()
            except ValueError: pass
            else: raise AssertionError
        """,
    )
    for name in ("Service.ready", "Service.barrier", "Service.tasks"):
        assert waits(told, name), name
    assert holders(told, "join Service.work") == {"worker"} and len(waits(told, "join Service.work")) == 2
    assert holders(told, "join Own") == {"own"}
    assert [event.value for event in told.of(QUEUE_GOT) if event.name == "Service.tasks"] == [0]
    for sent, received in flows(told).values():
        assert sent == received
    slow = [event for event in told.of(BEGIN) if event.name == "slow"]
    assert len(slow) == 2 and all(event.args["kind"] == "submitted" for event in slow)
    queued = [event.args["queued_ns"] for event in told.of(BEGIN) if event.name.endswith("<lambda>")]
    assert [isinstance(ns, int) and ns > 10_000_000 for ns in queued] == [True]
    assert "ThreadPoolExecutor-0_0" in holders(told, "first")
    semaphores = {lock.name for lock in told.locks.values() if lock.kind == 3}
    assert semaphores == set(), "a pool's count of idle threads is nobody's business"


def test_how_many_a_semaphore_lets_in_and_a_pool_may_start_is_told_once_in_each_process(
    tmp_path: Path,
) -> None:
    parent, child = traced(
        tmp_path,
        """
        import os, threading
        from concurrent.futures import ThreadPoolExecutor
        gate = threading.BoundedSemaphore(3)
        def enter():
            with gate: pass
        with ThreadPoolExecutor(4) as pool:
            for _ in range(2): pool.submit(enter).result()
        if os.fork() == 0:
            enter(); enter()
        else:
            assert os.wait()[1] == 0
        """,
    )
    both = [("gate", 3), ("pool", 4)]
    assert sorted((event.name, event.value) for event in parent.of(LOCK_LIMIT)) == both
    # Up to Python 3.12 the child's end asks the pool's threads to end, too.
    assert sorted((event.name, event.value) for event in child.of(LOCK_LIMIT)) in (both, both[:1])


PROCESSES = """
import multiprocessing, os, sys, time
class Service:
    def __init__(self, context):
        self.lock = context.Lock()
        self.again = context.RLock()
        self.gate = context.BoundedSemaphore(1)
        self.ready = context.Event()
        self.changed = context.Condition()
        self.tasks = context.Queue()
        self.simple = context.SimpleQueue()
        self.joined = context.JoinableQueue(1)
def hold(service):
    time.sleep(0.2)
    with service.lock, service.again, service.again, service.gate:
        service.ready.set(); time.sleep(0.3)
    assert service.tasks.get() == "item" and service.simple.get() == 5
    assert service.joined.get() == 6; service.joined.task_done()
    with service.changed: service.changed.notify_all()
    time.sleep(0.1)
def main(method):
    context = multiprocessing.get_context(method)
    service = Service(context)
    child = context.Process(target=hold, args=(service,), name="child")
    child.start(); service.ready.wait()
    assert not service.lock.acquire(False) and not service.again.acquire(timeout=0.01)
    with service.lock: pass
    service.tasks.put("item"); service.simple.put(5)
    with service.changed:
        service.joined.put(6)
        assert service.changed.wait(10)
    service.joined.join(); child.join(); assert child.exitcode == 0
    for lock in (service.lock, service.again, service.gate, service.changed):
        try:
            with lock: raise KeyError
        except KeyError: pass
        else: raise AssertionError("an exception ends there")
    try: service.lock.release()
    except ValueError: pass
    else: raise AssertionError
    repr((service.lock, service.again, service.gate, service.changed, service.ready))
if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_waits_for_what_another_holds(method: str, tmp_path: Path) -> None:
    found = traced(tmp_path, PROCESSES, arguments=(method,))
    told, *others = found
    child = next(other for other in others if "process" in flows(other))
    names = {wait.name for wait in told.of(LOCK_WAIT)}
    assert {"Service.ready", "Service.again", "Service.lock", "Service.changed", "join hold"} <= names, names
    assert flows(child)["process"][1] <= flows(told)["process"][0]
    # The merged trace says who: the child's main thread held it, whatever it is called there.
    done = subprocess.run(
        [sys.executable, "-c", "from contend.cli import main; main()", "report", "t", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    report = data_in(done.stdout)
    locks = {lock["name"]: lock for lock in report["locks"]}
    for name in ("Service.lock", "Service.again"):
        assert locks[name]["instances"] == 1, locks[name]
    assert [holder["name"] for holder in locks["Service.lock"]["holders"]] == ["MainThread"]
    # Not the waiting process's own main thread, of the same name, but the only other one that took it.
    assert child.pid != told.pid and not any(wait.value for wait in waits(told, "Service.lock"))


POOL = """
import os, sys, time, multiprocessing
from concurrent.futures import ProcessPoolExecutor
def square(number): return number * number, os.getpid()
def fails(number): raise KeyError(number)
def begin(word): assert word == "hello"
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with ProcessPoolExecutor(2, mp_context=context, initializer=begin, initargs=("hello",)) as pool:
        futures = [pool.submit(square, number) for number in range(5)]
        assert [future.result()[0] for future in futures] == [0, 1, 4, 9, 16]
        assert futures[0].result()[1] != os.getpid()
        assert [value for value, _ in pool.map(square, range(4), chunksize=2)] == [0, 1, 4, 9]
        try: pool.submit(fails, 3).result()
        except KeyError as error: assert error.args == (3,)
        else: raise AssertionError
        try: pool.submit(lambda: 1).result()
        except Exception as error: assert "pickle" in str(error), error
        else: raise AssertionError
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_work_goes_to_processes_by_flows(method: str, tmp_path: Path) -> None:
    found = traced(tmp_path, POOL, arguments=(method,))
    told, *workers = found
    sent, received = (
        flows(told)["submit"][0],
        set().union(*(flows(one).get("submit", ((), set()))[1] for one in workers)),
    )
    assert len(sent) == 9 and received < sent and len(received) == 8  # one could not be pickled
    # One queue from those who submit to the workers, whatever lies between.
    assert [(event.name, event.kind) for event in told.of(QUEUE_PUT, QUEUE_GOT)] == [("pool", QUEUE_PUT)] * 9
    got = [event for one in workers for event in one.of(QUEUE_GOT)]
    # And the end of each worker; what the queue is called, the process says that made it.
    assert len(got) == 8 + 2 and {event.name for event in got} <= {"pool", ""}
    ran = [name for one in workers for _, name, *_ in one.spans()]
    assert (ran.count("square"), ran.count("fails")) == (5 + 2, 1)
