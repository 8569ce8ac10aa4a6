"""Who wants to know, while something is waited for, whether work goes on elsewhere."""

from __future__ import annotations

from collections.abc import Callable

GoesOn = Callable[[bool], None]


def unheard(goes_on: bool) -> None:
    """Nobody asked."""
