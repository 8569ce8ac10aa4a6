"""A file that says for how long a neighbour's work elsewhere has been going on: the proof that it is active."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

TICK_S = 0.05


class Working:
    """Writes FILE while the block runs: the seconds in which work went on, as reported to it. Each write is whole."""

    def __init__(self, file: Path) -> None:
        self._file, self._part = file, file.with_suffix(".part")
        self._done_s, self._since = 0.0, 0.0
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def tell(self, goes_on: bool) -> None:
        now = time.monotonic()
        with self._lock:
            if self._since:
                self._done_s += now - self._since
            self._since = now if goes_on else 0.0

    def seconds(self) -> float:
        with self._lock:
            return self._done_s + (time.monotonic() - self._since if self._since else 0.0)

    def _write(self) -> None:
        while not self._end.wait(TICK_S):
            self._part.write_text(f"{self.seconds():.3f}\n", encoding="ascii")
            self._part.replace(self._file)

    def __enter__(self) -> Working:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end.set()
        self._thread.join()
