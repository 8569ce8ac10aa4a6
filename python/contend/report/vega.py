"""The Vega runtime that every page with charts carries, and charts compiled for it.

vl-convert bundles the runtime anew each time, which takes 1.5 s; so it is kept below $XDG_CACHE_HOME/contend.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from contend import cache
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


def compiled(plot: Plot) -> dict[str, Any]:
    """A chart as Vega, which the page only has to draw."""
    import vl_convert

    vega: dict[str, Any] = vl_convert.vegalite_to_vega(plot.spec, vl_version=VEGA_LITE)
    return vega
