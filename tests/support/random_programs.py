"""Programs made at random: trees of calls, spans, locks, queues, messages and exceptions, in threads."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from contend import trace

LEAVES = ("spin", "sleep", "instant", "counter", "put", "get", "fail", "send", "receive")
NODES = ("call", "span", "arguments", "method", "catch", "first", "second", "again", "steps", "switch")

Tree = Any
"""A leaf's name, or a node's name and the trees inside it."""

TREES: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.tuples(st.sampled_from(NODES), st.lists(inner, max_size=4)),
    max_leaves=12,
)
PROGRAMS: st.SearchStrategy[list[list[Tree]]] = st.lists(
    st.lists(TREES, min_size=1, max_size=4), min_size=1, max_size=4
)


class Program:
    """One list of trees for each thread. `greenlets`: parts of a thread are greenlets of it."""

    def __init__(self, *, greenlets: bool) -> None:
        self.greenlets = greenlets
        self.first_lock = trace.Lock(name="first")
        self.second_lock = trace.Lock(name="second")
        self.again_lock = trace.RLock(name="again")
        self.queue: trace.Queue[int] = trace.Queue(name="queue")
        self.messages: list[int] = []
        # Locks are taken in one order, so that nobody waits for good.
        self.depth = threading.local()

    def run(self, threads: list[list[Tree]]) -> None:
        """Returns when all have ended. What a thread raises is meant to."""
        started = [threading.Thread(target=self.thread, args=(trees,)) for trees in threads]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()

    def thread(self, trees: list[Tree]) -> None:
        for tree in trees:
            with trace.span("root"), contextlib.suppress(ValueError):
                self.one(tree)

    def one(self, tree: Tree) -> None:
        if isinstance(tree, str):
            getattr(self, tree)()
        else:
            node, inner = tree
            getattr(self, node)(inner)

    def all(self, inner: list[Tree]) -> None:
        for tree in inner:
            self.one(tree)

    # ---- leaves

    def spin(self) -> None:
        sum(range(2000))

    def sleep(self) -> None:
        time.sleep(1e-5)

    def instant(self) -> None:
        trace.instant("instant", of="text")

    def counter(self) -> None:
        trace.counter("counter", 1.5)

    def put(self) -> None:
        self.queue.put(1)

    def get(self) -> None:
        with contextlib.suppress(queue.Empty):
            self.queue.get(timeout=1e-4)

    def send(self) -> None:
        self.messages.append(trace.flow.sent("message"))

    def receive(self) -> None:
        if self.messages:
            trace.flow.received("message", self.messages[-1])

    def fail(self) -> None:
        raise ValueError("meant")

    # ---- nodes

    def call(self, inner: list[Tree]) -> None:
        trace.traced(name="call")(self.all)(inner)

    @trace.traced(name="method")
    def method(self, inner: list[Tree]) -> None:
        self.all(inner)

    def span(self, inner: list[Tree]) -> None:
        with trace.span("span"):
            self.all(inner)

    def arguments(self, inner: list[Tree]) -> None:
        with trace.span("arguments", number=len(inner), text="x"):
            self.all(inner)

    def catch(self, inner: list[Tree]) -> None:
        try:
            with trace.span("catch"):
                self.all(inner)
        except ValueError:
            pass

    def steps(self, inner: list[Tree]) -> None:
        @trace.traced(name="steps")
        def steps() -> Iterator[None]:
            for tree in inner:
                self.one(tree)
                yield

        for number, _ in enumerate(steps()):
            with trace.span("between"):
                pass
            if number == 2:
                return  # left where it is

    def switch(self, inner: list[Tree]) -> None:
        if not self.greenlets or self.level() > 0:
            return self.all(inner)
        import greenlet

        def half(trees: list[Tree]) -> None:
            for tree in trees:
                with trace.span("in greenlet"):
                    with contextlib.suppress(ValueError):
                        self.one(tree)
                    here.switch()

        here = greenlet.getcurrent()
        both = [greenlet.greenlet(half), greenlet.greenlet(half)]
        both[0].switch(inner[::2])
        both[1].switch(inner[1::2])
        while not all(one.dead for one in both):
            for one in both:
                if not one.dead:
                    one.switch()
        return None

    def first(self, inner: list[Tree]) -> None:
        self.within(1, self.first_lock, inner)

    def second(self, inner: list[Tree]) -> None:
        self.within(2, self.second_lock, inner)

    def again(self, inner: list[Tree]) -> None:
        self.within(3, self.again_lock, inner)

    def level(self) -> int:
        level: int = getattr(self.depth, "level", 0)
        return level

    def within(self, level: int, lock: Any, inner: list[Tree]) -> None:
        before = self.level()
        if before > level or (before == level and level != 3):
            return self.all(inner)
        with lock:
            self.depth.level = level
            try:
                self.all(inner)
            finally:
                self.depth.level = before
        return None
