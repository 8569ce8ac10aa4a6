"""The Vega runtime that every page with charts carries, and charts compiled for it.

vl-convert bundles the runtime anew each time, which takes 1.5 s; so it is kept below $XDG_CACHE_HOME/contend.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from typing import Any

from contend import cache
from contend.printable import printable
from contend.report.plotkit import VEGA_LITE, Plot

SCRIPT = "window.vegaEmbed = vegaEmbed;"


@functools.cache
def vega_runtime(*, keep: bool = True) -> str:
    """`window.vegaEmbed`, as vl-convert bundles it. No closing tag may end the script early. keep: for the next page; a
    bundle that is kept already is used in either case.

    Bundling `vega` alone would be a third smaller, but Vega 6 has no default export and the name is null in
    the bundle; vega-embed draws compiled charts all the same.
    """
    import importlib.metadata

    import vl_convert

    of = hashlib.sha256((importlib.metadata.version("vl-convert-python") + SCRIPT).encode()).hexdigest()
    kept = cache.place(f"vega-{of[:16]}.js")
    content = cache.read(kept) if kept else None
    bundle = vl_convert.javascript_bundle(SCRIPT) if content is None else content.decode()
    if content is None and kept and keep:
        cache.keep(kept, bundle.encode())
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


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
    """A chart as Vega, which the page only has to draw."""
    import vl_convert

    vega: dict[str, Any] = vl_convert.vegalite_to_vega(drawable(plot.spec), vl_version=VEGA_LITE)
    return vega
