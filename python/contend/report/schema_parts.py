"""Parts of the schemas of contend's documents. Every object is closed, so that a field added to a document without
a place in its schema fails the tests.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TEXTS: Schema = {"type": "array", "items": TEXT}
FACTORS: Schema = {"type": "object", "additionalProperties": TEXT}


def maybe(schema: Schema, about: str = "") -> Schema:
    return {"anyOf": [schema, {"type": "null"}], **({"description": about} if about else {})}


def closed(about: str, optional: tuple[str, ...] = (), **properties: Schema) -> Schema:
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


def ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def many(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}
