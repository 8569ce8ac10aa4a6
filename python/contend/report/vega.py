"""The Vega runtime that every page with charts carries, and charts compiled for it.

vl-convert bundles the runtime anew each time, which takes 1.5 s; so it is kept below $XDG_CACHE_HOME/contend.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

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

    kept = _kept(importlib.metadata.version("vl-convert-python") + SCRIPT)
    bundle = _read(kept) if kept else None
    if bundle is None:
        bundle = vl_convert.javascript_bundle(SCRIPT)
        if kept and keep:
            _keep(kept, bundle)
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def compiled(plot: Plot) -> dict[str, Any]:
    """A chart as Vega, which the page only has to draw."""
    import vl_convert

    vega: dict[str, Any] = vl_convert.vegalite_to_vega(plot.spec, vl_version=VEGA_LITE)
    return vega


def _kept(of: str) -> Path | None:
    """Where what is made of that is kept; None for a user without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification: a relative path there is to be ignored.
        root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        return None
    return root / "contend" / f"vega-{hashlib.sha256(of.encode()).hexdigest()[:16]}.js"


def _read(path: Path) -> str | None:
    """What is kept there whole, by this user: it goes into pages, where it is run."""
    try:
        with path.open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & 0o022:
                return None
            digest, _, content = file.read().partition(b"\n")
    except OSError:
        return None
    whole = digest == hashlib.sha256(content).hexdigest().encode()
    return content.decode() if whole else None


def _keep(path: Path, text: str) -> None:
    """Whole or not at all. Where that cannot be, as on a full disk, the next page bundles it again."""
    content = text.encode()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # of mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
