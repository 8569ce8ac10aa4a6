"""Something to do when a module has been imported, now or later, without importing it."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence

# importlib.abc's own, without the 6 ms that importlib.abc takes to import in every process.
from importlib._abc import Loader
from types import ModuleType
from typing import Any

from contend.trace.changes import Changes

Hook = Callable[[ModuleType], None]
State = tuple[dict[str, list[Hook]], Callable[[str], Hook | None], bool]


class _After(Loader):
    """The module's own loader, then the hooks."""

    def __init__(self, loader: Loader, hooks: list[Hook]) -> None:
        self._loader = loader
        self._hooks = hooks

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module sees its own loader: some look for their files by it.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        for hook in self._hooks:
            hooks.call(hook, module)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)


class Hooks:
    """A finder that finds nothing itself: it lets the others find, and has its hooks called after the module ran.

    `every` is asked for each module by its name, and gives a hook or None.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, list[Hook]] = {}
        self.every: Callable[[str], Hook | None] = lambda _name: None
        self.changes: Changes | None = None
        """Where what hooks do is remembered, to be undone."""
        self._looking: set[str] = set()

    def call(self, hook: Hook, module: ModuleType) -> None:
        """Have a hook patch a module that was imported.

        The program goes on whatever the hook finds, such as a version of the module that it does not know.
        """
        try:
            if self.changes is None:
                hook(module)
            else:
                self.changes.watch(hook, module)
        except Exception as error:  # noqa: BLE001
            print(f"contend.trace: {module.__name__} is not traced: {error!r}", file=sys.stderr)

    def put(self, owner: Any, name: str, value: object) -> None:
        """Replace a name of an object, or of another module than the hook's own, on record."""
        if self.changes is None:
            setattr(owner, name, value)
        else:
            self.changes.put(owner, name, value)

    def state(self) -> State:
        """The hooks as they are now, for `reset`."""
        return {name: list(hooks) for name, hooks in self._by_name.items()}, self.every, self in sys.meta_path

    def reset(self, state: State) -> None:
        """Restore a `state`: hooks that were added since are forgotten."""
        self._by_name, self.every, installed = state
        if not installed and self in sys.meta_path:
            sys.meta_path.remove(self)

    def when_imported(self, name: str, hook: Hook) -> None:
        """Call the hook with the module: at once if it is imported already."""
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            self.call(hook, module)
            return
        self._by_name.setdefault(name, []).append(hook)
        self.install()

    def install(self) -> None:
        """Put this finder before all others."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        hooks = list(self._by_name.get(fullname, ()))
        hook = self.every(fullname)
        if hook is not None:
            hooks.append(hook)
        if not hooks or fullname in self._looking:
            return None
        self._looking.add(fullname)
        try:
            for finder in sys.meta_path:
                spec = None if finder is self else finder.find_spec(fullname, path, target)
                if spec is not None:
                    if isinstance(spec.loader, Loader) or hasattr(spec.loader, "exec_module"):
                        spec.loader = _After(spec.loader, hooks)  # type: ignore[arg-type]
                    return spec
        finally:
            self._looking.discard(fullname)
        return None


hooks = Hooks()
"""Of this process."""
when_imported = hooks.when_imported
