"""Run by the interpreter of a traced program before the program: begins the recording, then the program's own
sitecustomize. On PYTHONPATH by `contend trace`; imports contend from where it is, and nothing else from there.
"""

import os
import sys


def _begin() -> None:
    # Beside this: the directory is on the path until the program begins.
    from contend_inject import load  # type: ignore[import-not-found]

    load(os.environ["CONTEND_TRACE_PACKAGE"])
    from contend.trace import injected

    injected.begin(os.environ["CONTEND_TRACE"])


def _program_own() -> None:
    """Run what Python would have imported in this file's place."""
    own = sys.modules["sitecustomize"]
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
        sys.modules.setdefault("sitecustomize", own)


if "CONTEND_TRACE" in os.environ and "CONTEND_TRACE_PACKAGE" in os.environ:
    try:
        _begin()
    except Exception as error:  # noqa: BLE001 - whatever it is, the program runs as without us
        hint = getattr(error, "hint", "")
        print(f"contend.trace: this process is not recorded: {error}", file=sys.stderr)
        if hint:
            print(f"  hint: {hint}", file=sys.stderr)
_program_own()
