"""Run by the interpreter of a traced program before the program: begins the recording, then the program's own
sitecustomize. On PYTHONPATH by `contend trace`; imports contend from where it is, and nothing else from there.
"""

import importlib.util
import os
import sys


def _begin() -> None:
    package = os.path.join(os.environ["CONTEND_TRACE_PACKAGE"], "contend")  # noqa: PTH118 - pathlib costs 10 ms here
    if "contend" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "contend",
            os.path.join(package, "__init__.py"),  # noqa: PTH118
            submodule_search_locations=[package],
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"there is no contend in {package}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["contend"] = module
        spec.loader.exec_module(module)
    from contend.trace import injected

    injected.begin(os.environ["CONTEND_TRACE"])


def _program_own() -> None:
    """What Python would have imported in this file's place."""
    ours = sys.modules["sitecustomize"]
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]  # noqa: PTH100
    sys.path_importer_cache.pop(here, None)
    del sys.modules["sitecustomize"]
    try:
        # Another one, now that this is off the path.
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


if "CONTEND_TRACE" in os.environ and "CONTEND_TRACE_PACKAGE" in os.environ:
    try:
        _begin()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program runs as without us
        hint = getattr(error, "hint", "")
        print(f"contend.trace: this process is not recorded: {error}", file=sys.stderr)
        if hint:
            print(f"  hint: {hint}", file=sys.stderr)
_program_own()
