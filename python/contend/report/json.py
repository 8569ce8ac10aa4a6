"""The analysis as a document for machines: what `--json` prints and findings.json holds.

Its shape is docs/reference/analysis.schema.json, made by `contend.analysis.schema`.
"""

from __future__ import annotations

import json

from contend.document import Analysis


def render_json(analysis: Analysis, *, indent: int | None = None) -> str:
    """One JSON document, without NaN or infinity: a bound that does not exist is null."""
    return json.dumps(analysis.to_json(), ensure_ascii=False, indent=indent, allow_nan=False)
