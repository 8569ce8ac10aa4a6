"""Where text leaves contend for a terminal or a pipe: what is printed, consoles of reports, JSON on stdout.

Here, not at each print, secrets are masked (`contend.text.masking`) and control characters written as escapes
(`contend.text.printable`): a new line of output cannot forget either. What contend itself draws with (colours, a line that
is redrawn) goes to the `plain` stream, with the words of others made `safe` first.
"""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO, cast

from contend.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console


def safe(text: str) -> str:
    r"""Make text of others safe to show: masked, without control characters; line ends stay.

    >>> safe("--token abcdef123 \x1b]0;owned\x07")
    '--token *** \\x1b]0;owned\\x07'
    """
    from contend.text.masking import mask

    return printable(mask(text), lines=True)


class SafeStream(io.TextIOBase):
    """A text stream that makes `safe` what is written to it. Text is held until its line ends, or until `flush`."""

    def __init__(self, stream: TextIO) -> None:
        self.plain = stream
        self._held = ""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes str, not {type(text).__name__}")
        with self._lock:
            whole, end, self._held = (self._held + text).rpartition("\n")
            if end:
                self.plain.write(safe(whole + end))
        return len(text)

    def flush(self) -> None:
        with self._lock:
            held, self._held = self._held, ""
            if held:
                self.plain.write(safe(held))
        self.plain.flush()

    def close(self) -> None:
        """Do nothing: the stream below is the interpreter's."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self.plain.isatty()

    def fileno(self) -> int:
        return self.plain.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.plain.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self.plain.errors

    @property
    def buffer(self) -> Any:
        return self.plain.buffer


def guard_streams() -> None:
    """Make stdout and stderr of this process safe. Idempotent."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, SafeStream):
            setattr(sys, name, cast(TextIO, SafeStream(stream)))


def plain(stream: TextIO) -> TextIO:
    """The stream below a safe one, for what contend draws, or shows a secret with on purpose."""
    if isinstance(stream, SafeStream):
        stream.flush()
        return stream.plain
    return stream


def write_json(document: Any, *, indent: int | None = None, default: Any = None) -> None:
    """Write a JSON document and a line end to stdout, its secrets masked."""
    from contend.text.masking import mask_value

    stream = plain(sys.stdout)
    json.dump(mask_value(document), stream, allow_nan=False, indent=indent, default=default)
    stream.write("\n")


def safe_console(*, stderr: bool = False, file: TextIO | None = None, **options: Any) -> Console:
    """A rich console to stdout, stderr or `file` that makes `safe` what it renders, in tables too. Colours are rich's."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    from contend.text.masking import mask

    class Safe(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            if isinstance(renderable, str):
                renderable = mask(renderable)
            elif isinstance(renderable, Text) and (masked := mask(renderable.plain)) != renderable.plain:
                renderable = Text(masked, style=renderable.style, justify=renderable.justify)
            for segment in super().render(renderable, options):
                shown = segment.text if segment.control else printable(segment.text, lines=True)
                yield segment if shown == segment.text else Segment(shown, segment.style)

    options.setdefault("highlight", False)
    return Safe(file=file or plain(sys.stderr if stderr else sys.stdout), **options)


__all__: Sequence[str] = ["SafeStream", "guard_streams", "plain", "safe", "safe_console", "write_json"]
