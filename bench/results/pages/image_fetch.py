"""What downloads cost the client's CPU."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from contend.stats.compare import compare
from contend.units import format_ratio
from results.files import Data
from results.words import fence

LEAST_OVER_CURL = 1.2
FETCH_CURL, CURL_FETCH = "http fetch / http curl", "https curl / https fetch"
HASH = "sha512"
_WITHDRAWN = ("floor", "recv at")
"""Sums of parts that were measured alone: a client could beat them."""


def body(d: Data) -> str:
    """How it compares with curl and with the hash alone, then all figures."""
    r: Mapping[str, list[float]] = d["ratios"]
    sentences = [f"{d['size'] / 2**30:g} GiB, {d['rounds']} rounds."]
    if FETCH_CURL in r:
        sentences.append(
            f"Unverified, contend's downloader is to take no more than curl by HTTP: it takes {_is(r[FETCH_CURL])} times"
            f" as much; and curl {LEAST_OVER_CURL:g} times as much by HTTPS: it takes {_is(r[CURL_FETCH])} times"
            " (AES-128 for curl's AES-256 is a part of that)."
        )
    floors = [
        f"{_is(of_hash(d, f'{scheme}+sha512 fetch'))} times by {scheme.upper()}"
        for scheme in ("http", "https")
    ]
    sentences.append(
        "The floor of a verified download is sha512 alone: every client hashes all bytes, contend fetch by the same library."
        f" Of that floor contend fetch takes {' and '.join(floors)}. Receiving at full speed costs more a byte than receiving"
        " at the pace of the hash, so the sum of the parts, each measured alone, is no floor."
    )
    return " ".join(sentences) + "\n\n" + fence("\n".join(lines(d)))


def of_hash(d: Data, name: str) -> list[float]:
    """A client's CPU time, in times of the hash alone: estimate, low, high."""
    e = compare(d["cpu_s_per_gb"][HASH], d["cpu_s_per_gb"][name])
    return [e.value, e.low, e.high]


def lines(d: Data) -> list[str]:
    """As the program prints them."""
    found: Mapping[str, list[float]] = d["cpu_s_per_gb"]
    shown = ["client CPU-s per 10^9 bytes, median [least, most]; server's beside it", ""]
    names = [name for name in found if not name.startswith(("server ", *_WITHDRAWN))]
    for name in sorted(names, key=lambda name: (name.split(" ")[0], statistics.median(found[name]))):
        values, beside = found[name], found.get(f"server {name}")
        shown.append(
            f"{name:36} {statistics.median(values):7.3f} [{min(values):.3f}, {max(values):.3f}]"
            + (
                f"   server {statistics.median(beside):.3f}"
                if beside and statistics.median(beside) > 1e-3
                else ""
            )
        )
    shown += ["", "ratios, with 95 % intervals over rounds", ""]
    ratios: dict[str, list[float]] = {name: r for name, r in d["ratios"].items() if "floor" not in name}
    for scheme in ("http", "https"):
        for client in ("reader", "fetch"):
            if (name := f"{scheme}+sha512 {client}") in found and HASH in found:
                ratios[f"{name} / {HASH}"] = of_hash(d, name)
    return shown + [f"{name:56} {format_ratio(*ratio)}" for name, ratio in ratios.items()]


def _is(ratio: list[float]) -> str:
    return str(format_ratio(*ratio))
