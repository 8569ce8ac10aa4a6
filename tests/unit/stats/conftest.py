"""No deadline per example: these tests check figures, and the machine may be busy with other things."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
