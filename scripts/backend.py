"""How pip and uv build contend: as maturin does, with the program that draws the charts of its pages made first.

    python scripts/backend.py         makes that program alone, where it is missing or of another version

It is Vega, Vega-Lite and vega-embed in one script, bundled by vl-convert: 85 MB that nobody who installs contend needs.
"""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

CHARTS = Path(__file__).parents[1] / "python/contend/report/templates/vega.js"


def build_wheel(*given: Any, **named: Any) -> str:
    refuse_others()
    make_charts()
    made: str = maturin.build_wheel(*given, **named)
    return made


def build_editable(*given: Any, **named: Any) -> str:
    refuse_others()
    make_charts()
    made: str = maturin.build_editable(*given, **named)
    return made


def build_sdist(*given: Any, **named: Any) -> str:
    make_charts()
    made: str = maturin.build_sdist(*given, **named)
    return made


def refuse_others() -> None:
    """What contend measures is Linux's, and what it is linked to is glibc. Raises SystemExit elsewhere, before a compiler
    says so in its own words."""
    system = platform.system()
    if system != "Linux":
        raise SystemExit(f"error: contend runs on Linux, and this is {system}")
    if platform.libc_ver()[0] != "glibc":
        raise SystemExit(
            "error: contend needs glibc, and this Python is built with another libc (musl, as on Alpine)\n"
            "  hint: run it from its OCI image, which sees the host: podman run --privileged --pid=host"
        )


def make_charts() -> None:
    """Write `window.vegaEmbed` as a script that may stand inside a page: no closing tag ends it early."""
    version = importlib.metadata.version("vl-convert-python")
    first = f"/* Vega, Vega-Lite and vega-embed, bundled by vl-convert {version} */\n"
    if CHARTS.exists() and CHARTS.read_text(encoding="utf-8").startswith(first):
        return
    import vl_convert

    # `vega` alone cannot be bundled: Vega 6 has no default export, and the name is null in the bundle.
    script: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    half = CHARTS.with_name(f".{CHARTS.name}.part")
    half.write_text(
        first + script.replace("</script", "<\\/script").replace("<!--", "<\\!--"), encoding="utf-8"
    )
    half.replace(CHARTS)


if __name__ == "__main__":
    make_charts()
