"""Kills of `contend prove`: is what it changed put back?"""

from __future__ import annotations

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import bounds


def body(d: Data) -> str:
    """How soon all was as before, and what was left."""
    hits = [life for life in d["lives"] if life["hit"]]
    treated = [life for life in hits if life["treated"]]
    slowest = max((life["back_s"] for life in hits if life["back_s"] is not None), default=0.0)
    clean = sum(not life["left"] and not life["code"] for life in hits)
    return f"""\
`contend prove` holds a suspect back for half a second at a time, and is killed with SIGKILL at a random moment of its first twelve
seconds. A watchdog of its own has to put the suspect's weight back within a second; `contend destroy --all` has then to leave nothing.

**{d["back"]} of {d["kills"]}** were as before within a second (95 % bounds for the share of moments, Clopper–Pearson:
{bounds(*d["bounds_95"])}), the slowest after {1e3 * slowest:.0f} ms. The suspect was held back at the moment of {len(treated)} of
these kills. Nothing was left in **{clean} of {len(hits)}** (bounds {bounds(*clopper_pearson(clean, len(hits)))})."""
