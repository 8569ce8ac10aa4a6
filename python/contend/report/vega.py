"""The Vega runtime that every page with charts carries, and charts compiled for it.

vl-convert bundles the runtime anew each time, which takes 1.5 s; so it is kept below $XDG_CACHE_HOME/contend. It is made in
a process of its own: that takes 50 MB which are not given back, and nothing else of this process can run meanwhile.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import vl_convert

from contend.report import cache
from contend.report.plotkit import VEGA_LITE, Plot
from contend.text.printable import printable

SCRIPT = "window.vegaEmbed = vegaEmbed;"


@functools.cache
def vega_runtime(*, keep: bool = True) -> str:
    """`window.vegaEmbed`, as vl-convert bundles it. No closing tag may end the script early. keep: for the next page; a
    bundle that is kept already is used in either case.

    Bundling `vega` alone would be a third smaller, but Vega 6 has no default export and the name is null in
    the bundle; vega-embed draws compiled charts all the same.
    """
    of = hashlib.sha256((importlib.metadata.version("vl-convert-python") + SCRIPT).encode()).hexdigest()
    kept = cache.path_of(f"vega-{of[:16]}.js")
    content = cache.read(kept) if kept else None
    bundle = bundled(SCRIPT) if content is None else content.decode()
    if content is None and kept and keep:
        cache.keep(kept, bundle.encode())
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def bundled(script: str) -> str:
    """The Vega runtime bundled with that script, in a process of its own, or in this one where that fails."""
    # -P: nothing of the working directory, which may be anybody's, is imported.
    argv = [sys.executable, "-P", "-c", _BUNDLE, script]
    with suppress(OSError):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode == 0 and done.stdout:
            return done.stdout.decode()
    return vl_convert.javascript_bundle(script)


_BUNDLE = (
    "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle(sys.argv[1]).encode())"
)
_CONTROL = re.compile(
    r"\\u(00[01][0-9a-f]|007f|00[89][0-9a-f]|20[0-2][0-9a-f]|206[0-9a-f]|feff|d[89a-f][0-9a-f]{2})"
)


def drawable(spec: dict[str, Any]) -> dict[str, Any]:
    """A spec whose texts hold no control characters: vl-convert ends the process at the first that XML has not."""
    text = json.dumps(spec)
    if _CONTROL.search(text) is None:
        return spec
    made: dict[str, Any] = _printable(spec)
    return made


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, lines=True)
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    return [_printable(each) for each in value] if isinstance(value, list | tuple) else value


def compiled(plot: Plot) -> dict[str, Any]:
    """A chart as Vega, which the page only has to draw.

    Its rows are put back afterwards: to compile a chart nobody looks at them, and to take tens of thousands of them
    through the compiler costs more than all the rest.
    """
    tables: dict[str, list[Any]] = {}
    bare = _without_rows(plot.spec, tables)
    vega: dict[str, Any] = vl_convert.vegalite_to_vega(drawable(bare), vl_version=VEGA_LITE)
    shown = drawable(tables)
    for source in vega.get("data", ()):
        if source["name"] in shown:
            source["values"] = shown[source["name"]]
    return vega


def _without_rows(spec: Any, tables: dict[str, list[Any]]) -> Any:
    """The spec with its rows as `tables`, by name; the same rows under the same name."""
    if isinstance(spec, list):
        return [_without_rows(each, tables) for each in spec]
    if not isinstance(spec, dict):
        return spec
    made = {}
    for key, value in spec.items():
        if key == "data" and isinstance(value, dict) and isinstance(value.get("values"), list):
            rest = {of: each for of, each in value.items() if of not in ("values", "name")}
            name = next((n for n, rows in tables.items() if rows == value["values"]), f"rows-{len(tables)}")
            tables[name] = value["values"]
            made[key] = {**rest, "name": name}
        else:
            made[key] = _without_rows(value, tables)
    return made
