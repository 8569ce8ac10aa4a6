"""What verbs print with `--json`: one form, which is checked wherever a test reads one."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from contend.text.answer import VERDICTS, Answer
from contend.text.shape import schema


@cache
def _form() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema(Answer))


def answer_in(text: str, code: int | None = None) -> dict[str, Any]:
    """The one document that text is. code: with which the verb ended, which its verdict must say."""
    document: dict[str, Any] = json.loads(text)
    _form().validate(document)
    assert document["headline"].strip(), document
    if code is not None and document["verb"] != "sample":  # which passes its command's on
        assert document["verdict"] == VERDICTS[code], (document["verb"], document["verdict"], code)
    return document


def data_in(text: str, code: int | None = None) -> Any:
    """What a verb found."""
    return answer_in(text, code)["data"]
