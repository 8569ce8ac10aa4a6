"""The JSON Schema of the analysis document, with the results of all studies that there are."""

from __future__ import annotations

from typing import Any

from contend.document import Analysis
from contend.studies import registry as studies
from contend.text.shape import schema


def analysis_schema() -> dict[str, Any]:
    """The schema as a document of draft 2020-12."""
    own = {study.key or name: study.result_type() for name, study in studies.every()}
    return schema(
        Analysis, "contend analysis", {key: result for key, result in own.items() if result is not None}
    )
