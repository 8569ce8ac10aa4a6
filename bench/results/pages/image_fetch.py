"""What downloads cost the client's CPU."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from contend.units import format_ratio
from results.files import Data
from results.words import fence

MOST_OF_FLOOR = 1.10
LEAST_OVER_CURL = 1.2
FETCH_CURL, CURL_FETCH = "http fetch / http curl", "https curl / https fetch"


def body(d: Data) -> str:
    """Whether what was asked for is reached, then all figures."""
    r: Mapping[str, list[float]] = d["ratios"]
    sentences = [f"{d['size'] / 2**30:g} GiB, {d['rounds']} rounds."]
    if FETCH_CURL in r:
        sentences.append(
            f"Unverified, contend's downloader is to take no more than curl by HTTP: it takes {_is(r[FETCH_CURL])} times"
            f" as much; and curl {LEAST_OVER_CURL:g} times as much by HTTPS: it takes {_is(r[CURL_FETCH])} times"
            " (AES-128 for curl's AES-256 is a part of that)."
        )
    floors = [
        (f"{scheme.upper()}, {words}", r[key])
        for words, floor in (
            ("receiving alone", "floor"),
            ("receiving at the pace of sha512", "floor at its pace"),
        )
        for scheme in ("http", "https")
        if (key := f"{scheme}+sha512 fetch / {floor} {scheme}+sha512") in r
    ]
    if floors:
        sentences.append(
            f"Verified, it is to take at most {MOST_OF_FLOOR:.2f} of the floor, the sum of receiving, decrypting and hashing,"
            " each measured alone. Receiving alone takes another time than receiving at the pace of sha512 does"
            f" ({_cost(d, 'recv')} and {_cost(d, RECV_PACED)} CPU-s), so there are two floors: "
            + "; ".join(
                f"{what} {_is(ratio)}" + ("" if ratio[0] <= MOST_OF_FLOOR else ", **beyond**")
                for what, ratio in floors
            )
            + "."
        )
    return " ".join(sentences) + "\n\n" + fence("\n".join(lines(d)))


RECV_PACED = "recv at sha512's pace"


def lines(d: Data) -> list[str]:
    """As the program prints them."""
    found: Mapping[str, list[float]] = d["cpu_s_per_gb"]
    shown = ["client CPU-s per 10^9 bytes, median [least, most]; server's beside it", ""]
    names = [name for name in found if not name.startswith("server ")]
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
    ratios: Mapping[str, Any] = d["ratios"]
    return shown + [f"{name:56} {format_ratio(*ratio)}" for name, ratio in ratios.items()]


def _is(ratio: list[float]) -> str:
    return str(format_ratio(*ratio))


def _cost(d: Data, name: str) -> str:
    return f"{statistics.median(d['cpu_s_per_gb'][name]):.3f}"
