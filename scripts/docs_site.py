"""What mkdocs asks when it builds the site: links that leave docs/ lead to files of the source, which the site has not.

They become the names of these files.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")
_CODE = re.compile(r"^```.*?^```", re.M | re.S)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text with links out of docs/ replaced by what they name.

    >>> from types import SimpleNamespace
    >>> page = SimpleNamespace(file=SimpleNamespace(src_uri="guides/a.md"))
    >>> on_page_markdown("see [it](../../testbed/x.py) and [b](../b.md)", page=page)
    'see it (`testbed/x.py`) and [b](../b.md)'
    """
    folder = PurePosixPath(page.file.src_uri).parent

    def named(match: re.Match[str]) -> str:
        text, link = match[1], match[2]
        leads = normpath(f"docs/{folder}/{link}")
        if leads.startswith("docs/"):
            return match[0]
        return text if text.strip("`") == leads else f"{text} (`{leads}`)"

    parts, end = [], 0
    for block in _CODE.finditer(markdown):
        parts += [_LINK.sub(named, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, _LINK.sub(named, markdown[end:])])
