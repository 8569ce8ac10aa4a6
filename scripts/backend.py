"""How pip and uv build contend: as maturin does, with the program that draws the charts of its pages made first, and with
pages of the manual and completions.

    python scripts/backend.py [all]         makes that program alone, where it is missing or of another version; or all

It is Vega, Vega-Lite and vega-embed in one script, bundled by vl-convert: 85 MB that nobody who installs contend needs.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
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

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "target/wheel-data"
"""What a wheel installs beside Python's own directory: [tool.maturin] in pyproject.toml names it, too."""
COMPLETIONS = {
    "bash": "bash-completion/completions/contend",
    "zsh": "zsh/site-functions/_contend",
    "fish": "fish/vendor_completions.d/contend.fish",
}
CHARTS = Path(__file__).parents[1] / "python/contend/report/templates/vega.js"


def prepare_metadata_for_build_wheel(*given: Any, **named: Any) -> str:
    PAGES.mkdir(
        parents=True, exist_ok=True
    )  # a source archive has no such directory, and maturin looks for it
    made: str = maturin.prepare_metadata_for_build_wheel(*given, **named)
    return made


def prepare_metadata_for_build_editable(*given: Any, **named: Any) -> str:
    PAGES.mkdir(parents=True, exist_ok=True)
    made: str = maturin.prepare_metadata_for_build_editable(*given, **named)
    return made


def build_wheel(*given: Any, **named: Any) -> str:
    refuse_others()
    make_charts()
    make_pages()
    made: str = maturin.build_wheel(*given, **named)
    return made


def build_editable(*given: Any, **named: Any) -> str:
    refuse_others()
    make_charts()
    PAGES.mkdir(parents=True, exist_ok=True)
    made: str = maturin.build_editable(*given, **named)
    return made


def build_sdist(*given: Any, **named: Any) -> str:
    make_charts()
    PAGES.mkdir(parents=True, exist_ok=True)
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


def make_pages() -> None:
    """Write pages of the manual and completions for shells, from the verbs' own help."""
    share = PAGES / "data/share"
    shutil.rmtree(PAGES, ignore_errors=True)
    manual = share / "man/man1"
    manual.mkdir(parents=True)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
        "version"
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, ROOT / "scripts/manual.py", manual, version], env=environment, check=True)
    for shell, place in COMPLETIONS.items():
        into = share / place
        into.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run(
            [sys.executable, "-c", _COMPLETION, shell],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        into.write_text(made.stdout, encoding="utf-8")


_COMPLETION = """\
import sys
from click.shell_completion import get_completion_class
from contend.cli import cli
completion = get_completion_class(sys.argv[1])(cli, {}, "contend", "_CONTEND_COMPLETE")
# `source` would look for the version of the shell on this host.
sys.stdout.write(completion.source_template % completion.source_vars())
"""


if __name__ == "__main__":
    make_charts()
    if sys.argv[1:] == ["all"]:
        make_pages()
