"""One pytest process that has collected a target's tests, and forks a child for each thing that is tried.

So what imports and collection cost is paid once, and each child begins with nothing run: no fixture, no cache. In the
child the code object of the mutated function takes the place of the right one, in all objects that have it.

What a test starts as another process has the code as it is, and what was computed when modules were imported stays: only
what a test reaches in its own process can kill.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from mutation.changes import Mutant
from mutation.targets import ROOT

PASSED, FAILED, BROKEN = 0, 1, 70


def collected(tests: Sequence[Path], body: Callable[[Session], None]) -> None:
    """Call `body` when pytest has collected these files. Random tests draw the same each time."""
    plugin = _Loop(body)
    names = [str(path.relative_to(ROOT)) for path in tests]
    options = [
        "-q",
        "-s",
        "-p",
        "no:cacheprovider",
        "-m",
        "not system and not accept and not slow",
        "--tb=line",
    ]
    os.chdir(ROOT)
    code = pytest.main([*options, *names], plugins=[plugin])
    if plugin.error is not None:
        raise plugin.error
    if not plugin.ran:
        raise RuntimeError(f"pytest could not collect the tests: it ended with {code}")


class _Loop:
    """Takes the place of pytest's loop over the tests."""

    def __init__(self, body: Callable[[Session], None]) -> None:
        self.body, self.ran = body, False
        self.error: BaseException | None = None

    def pytest_configure(self) -> None:
        from hypothesis import Phase, settings  # not before pytest: it wants to rewrite the assertions in it

        phases = [Phase.explicit, Phase.generate]
        settings.register_profile("mutants", database=None, derandomize=True, phases=phases, deadline=None)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return False  # a file that could not be imported
        self.ran = True
        try:
            self.body(Session(session))
        except BaseException as error:  # noqa: BLE001  (pytest would end the process with its own text)
            self.error = error
        return True


class Session:
    """The tests by name, and how they are run in a child."""

    def __init__(self, session: pytest.Session) -> None:
        self.config = session.config
        self.items = {item.nodeid: item for item in session.items}
        self.order = {name: index for index, name in enumerate(self.items)}
        self._functions: dict[tuple[str, str], list[FunctionType]] = {}
        for found in gc.get_objects():
            if type(found) is FunctionType and found.__code__.co_filename.startswith(str(ROOT / "python")):
                at = (found.__code__.co_filename, found.__code__.co_qualname)
                self._functions.setdefault(at, []).append(found)
        gc.freeze()  # or the first collection in each child copies all of these pages

    def run(self, place: Path, names: Sequence[str], plugins: Sequence[object] = (), *, first: bool) -> int:
        """FAILED, if one of them has failed. `first` ends then; else each is run."""
        watch = _Failures()
        self.config.pluginmanager.register(watch)
        for plugin in plugins:
            self.config.pluginmanager.register(plugin)
        factory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._given_basetemp, factory._basetemp = place / "tmp", None
        items = [self.items[name] for name in names]
        for item, after in zip(items, [*items[1:], None], strict=True):
            self.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if first and watch.failed:
                print(f"failed: {watch.failed[0]}", flush=True)
                return FAILED
        return FAILED if watch.failed else PASSED

    def mutate(self, mutant: Mutant, text: str) -> None:
        """Put the changed code into every object that has the function's. Raises LookupError where there is none: the
        module is not imported by any test, or the function was made and thrown away."""
        path = str(ROOT / mutant.path)
        functions = self._functions.get((path, mutant.outer), [])
        code = compile(text, path, "exec", dont_inherit=True)
        matching = list(_codes(code, mutant.outer))
        if not functions or not matching:
            raise LookupError(f"{mutant.outer} of {mutant.path}")
        changed = False
        for function in functions:
            for new in matching:
                if new.co_firstlineno == function.__code__.co_firstlineno:
                    function.__code__ = new
                    changed = True
                    if mutant.default:
                        made = _defaults(function, code, new)
                        function.__defaults__, function.__kwdefaults__ = (
                            made.__defaults__,
                            made.__kwdefaults__,
                        )
        if not changed:
            raise LookupError(f"{mutant.outer} of {mutant.path}")


class _Failures:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def _codes(code: CodeType, qualified: str) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == qualified:
                yield constant
            elif qualified.startswith(f"{constant.co_qualname}."):
                yield from _codes(constant, qualified)


def _defaults(like: FunctionType, module: CodeType, code: CodeType) -> FunctionType:
    """The function as this module's code makes it: defaults are computed where a function is defined."""
    scratch = ModuleType(like.__module__)
    scratch.__dict__.update(__file__=code.co_filename, __package__=like.__module__.rpartition(".")[0])
    exec(module, scratch.__dict__)
    for found in gc.get_objects():
        if type(found) is FunctionType and found.__globals__ is scratch.__dict__:
            at = found.__code__
            if (at.co_qualname, at.co_firstlineno) == (code.co_qualname, code.co_firstlineno):
                return found
    raise LookupError(code.co_qualname)


@dataclass
class Fork:
    """A child, in a process group and a directory of its own."""

    pid: int
    place: Path
    until: float
    tag: Any


def start(work: Callable[[Path], int], cpu_s: float, wall_s: float, tag: Any) -> Fork:
    """`work` gets the directory, and its result is the exit code. Beyond the CPU time it is ended by the kernel."""
    place = Path(tempfile.mkdtemp(prefix="contend-mutant-"))
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 3))
            log = os.open(place / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            code = work(place)
        except BaseException as error:  # noqa: BLE001  (a fork of the runner must not go on as a second runner)
            print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    return Fork(pid, place, time.monotonic() + wall_s, tag)


@contextlib.contextmanager
def all_ended(forks: list[Fork]) -> Iterator[None]:
    """Whatever happens in the body, no child outlives it."""
    try:
        yield
    finally:
        for fork in forks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(fork.pid, signal.SIGKILL)
            os.waitpid(fork.pid, 0)
            shutil.rmtree(fork.place, ignore_errors=True)


def ended(forks: list[Fork]) -> Iterator[tuple[Fork, int | None, str]]:
    """Those that have ended, with their exit code (None, if they ran out of time) and what they wrote."""
    for fork in list(forks):
        pid, status = os.waitpid(fork.pid, os.WNOHANG)
        late = pid == 0 and time.monotonic() > fork.until
        if pid == 0 and not late:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.killpg(fork.pid, signal.SIGKILL)  # with what its tests have left
        if pid == 0:
            _, status = os.waitpid(fork.pid, 0)
        forks.remove(fork)
        log = (fork.place / "log").read_text(encoding="utf-8", errors="replace")
        shutil.rmtree(fork.place, ignore_errors=True)
        signalled = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        if late or signalled in (signal.SIGXCPU, signal.SIGKILL):
            yield fork, None, log
        else:
            yield fork, -signalled if signalled else os.WEXITSTATUS(status), log
