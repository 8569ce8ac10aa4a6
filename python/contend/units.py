"""Quantities as people write them, and back.

Internally time is integer nanoseconds, sizes are bytes, ratios are plain floats; a field's name carries
its unit. Only the edges (scenario files, tables) use the strings parsed and printed here.
"""

from __future__ import annotations

import math
import re

from contend.errors import BadInput
from contend.text.printable import short

NS_PER_S = 1_000_000_000

_DURATIONS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
_SIZES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Zµ%]*)\s*")
_LONGEST = 64  # characters of a quantity: more digits than a float holds mean nothing

MOST_DURATION_NS = 100 * 365 * 86_400 * NS_PER_S
"""The longest duration that is taken, 100 years: kernels and other programs count in 63 bits of nanoseconds."""
MOST_SIZE = 2**60
"""The largest size that is taken, 1 EiB, for the same reason."""


def parse_duration_ns(text: str | int | float) -> int:
    """Parse `'3m'`, `'1.5s'`, `'200ms'` into nanoseconds; a bare number is seconds. At most 100 years. Raises BadInput.

    >>> parse_duration_ns("1.5s"), parse_duration_ns(2), parse_duration_ns("3m")
    (1500000000, 2000000000, 180000000000)
    """
    number, unit = _quantity(text, "a duration", "write it like 500ms, 2s or 5m")
    unit = unit or "s"
    if unit not in _DURATIONS_NS:
        raise BadInput(f"'{short(text)}' is not a duration", hint="units are ns, us, ms, s, m, h")
    if number < 0:
        raise BadInput(f"'{short(text)}' is negative", hint="a duration is zero or more")
    if number * _DURATIONS_NS[unit] > MOST_DURATION_NS:
        raise BadInput(f"'{short(text)}' is too long a time", hint="100 years (876000h) is the most")
    return round(number * _DURATIONS_NS[unit])


def parse_fraction(text: str | int | float) -> float:
    """Parse `'2%'` or `0.02` into a fraction, zero or more. Raises BadInput.

    >>> parse_fraction("2%"), parse_fraction(0.05)
    (0.02, 0.05)
    """
    hint = "write it like 2% or 0.02"
    number, unit = _quantity(text, "a percentage", hint)
    if unit not in ("", "%"):
        raise BadInput(f"'{short(text)}' is not a percentage", hint=hint)
    if number < 0:
        raise BadInput(f"'{short(text)}' is negative", hint=hint)
    return number / (100 if unit == "%" else 1)


def parse_size_bytes(text: str | int) -> int:
    """Parse `'64M'`, `'4k'`, `'1GiB'` (powers of two) into bytes. At most 1 EiB. Raises BadInput.

    >>> parse_size_bytes("4k"), parse_size_bytes("1GiB"), parse_size_bytes(512)
    (4096, 1073741824, 512)
    """
    hint = "write it like 4k, 64M or 1G (powers of two)"
    number, written = _quantity(text, "a size", hint)
    unit = written.lower().removesuffix("ib")
    if len(unit) == 2:
        unit = unit.removesuffix("b")
    if unit not in _SIZES:
        raise BadInput(f"'{short(text)}' is not a size", hint=hint)
    if number < 0:
        raise BadInput(f"'{short(text)}' is negative", hint=hint)
    if number * _SIZES[unit] > MOST_SIZE:
        raise BadInput(f"'{short(text)}' is too large", hint="1048576T is the most")
    return round(number * _SIZES[unit])


def _quantity(text: str | int | float, what: str, hint: str) -> tuple[float, str]:
    """A finite number, and its unit as it was written ("" of none). Raises BadInput."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        try:
            number, unit = float(text), ""
        except OverflowError:  # an int of 400 digits
            number, unit = math.inf, ""
    else:
        match = _NUMBER.fullmatch(text) if isinstance(text, str) and len(text) <= _LONGEST else None
        if match is None:
            raise BadInput(f"'{short(text)}' is not {what}", hint=hint)
        number, unit = float(match[1]), match[2]
    if not math.isfinite(number):
        raise BadInput(f"'{short(text)}' is not {what}", hint=hint)
    return number, unit


def format_duration(ns: float) -> str:
    """Format ns with three significant digits, in the unit a person would choose.

    >>> format_duration(1_230_000_000), format_duration(64e9), format_duration(1500), format_duration(999.7e6)
    ('1.23 s', '1 min 04 s', '1.5 µs', '1 s')
    """
    if not math.isfinite(ns):
        return "?"
    if ns >= 60 * NS_PER_S:
        seconds = round(ns / NS_PER_S)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    unit, size = duration_unit(ns)
    return f"{ns / size:.3g} {unit}"


def exact_duration(ns: int) -> str:
    """Write ns as `parse_duration_ns` takes them, without loss, in the largest unit of which they are a whole number.

    >>> exact_duration(1_500_000_000), exact_duration(300 * 3600 * 10**9), exact_duration(7)
    ('1500ms', '1080000s', '7ns')
    """
    unit, size = next(
        each for each in (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)) if ns % each[1] == 0
    )
    return f"{ns // size}{unit}"


def duration_unit(ns: float) -> tuple[str, float]:
    """Choose the unit of a duration below a minute: its name and its ns.

    >>> duration_unit(1500), duration_unit(999.7e6)
    (('µs', 1000.0), ('s', 1000000000.0))
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= 0.9995 * size:  # what rounds to a thousand of the smaller unit is one of this
            return unit, size
    return "ns", 1.0


def format_value(value: float, unit: str = "") -> str:
    """Format a measured value with three significant digits, scaled where the unit is a count or a time in seconds.

    >>> format_value(86123, "IOPS"), format_value(0.00123, "s"), format_value(1.0449, "s"), format_value(8712, "count")
    ('86.1 kIOPS', '1.23 ms', '1.04 s', '8,712')
    >>> format_value(852_000, "1/s"), format_value(3.2, "1/s")
    ('852 k/s', '3.2 /s')
    """
    if not math.isfinite(value):
        return "?"
    if unit == "s":
        return format_duration(value * NS_PER_S) if value else "0 s"
    if unit == "ns":
        return format_duration(value)
    if unit == "count":
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    prefix = ""
    magnitude = abs(value)
    if unit not in ("%", "ratio", "MiB", "MB/s", "MiB/s", ""):
        for symbol, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
            if magnitude >= size:
                value, prefix = value / size, symbol
                break
    digits = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    of = unit.removeprefix("1") if unit.startswith("1/") else unit  # k/s, not k1/s
    return f"{digits} {prefix}{of}".rstrip()


def within(matters: float) -> str:
    """Explain "unaffected", of a relative change up to which something counts as that.

    >>> within(0.03), within(0.005)
    ('within ±3 %', 'within ±0.5 %')
    """
    return f"within ±{100 * matters:.2g} %"


def format_ratio(value: float, low: float, high: float) -> str:
    """Format a ratio with its interval, with as many decimals as the interval deserves.

    >>> format_ratio(2.021, 1.981, 2.069), format_ratio(1.96, 1.8, 2.25)
    ('2.02 [1.98, 2.07]', '2.0 [1.8, 2.2]')
    >>> format_ratio(1.5, 0, math.inf), format_ratio(math.nan, 0, math.inf)
    ('1.50 [too few blocks]', '? [no figure]')
    """
    return " ".join(ratio_parts(value, low, high))


def format_times(value: float, low: float, high: float) -> str:
    """Format a ratio as a sentence says how many times something is another.

    >>> format_times(2.021, 1.981, 2.069)
    '2.02× [1.98, 2.07]'
    """
    return "× ".join(ratio_parts(value, low, high))


def ratio_parts(value: float, low: float, high: float, least: int = 1) -> tuple[str, str]:
    """Format a ratio and its interval, apart. least: decimals at the least."""
    if math.isnan(value):
        return "?", "[no figure]"
    decimals = ratio_decimals(low, high)
    if decimals is None:
        return f"{value:.2f}", "[too few blocks]"
    decimals = max(decimals, least)
    return f"{value:.{decimals}f}", f"[{low:.{decimals}f}, {high:.{decimals}f}]"


def ratio_decimals(low: float, high: float) -> int | None:
    """Number of decimals that the interval deserves; None where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    width = high - low
    return 3 if width < 0.005 else 2 if width < 0.35 else 1


def of_time(part: float) -> str:
    """
    >>> of_time(0.613), of_time(0.004)
    ('61 %', '0.4 %')
    """
    return f"{100 * part:.0f} %" if part >= 0.01 or part == 0 else f"{100 * part:.1g} %"
