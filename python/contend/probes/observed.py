"""Names, units and meanings of what is observed of a trial, and the values that were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

Quantity = tuple[float, str]  # a value and its unit


class Observed(StrEnum):
    """Every piece of evidence a trial's row can hold: its name in the row, its unit, and what it means.

    Whoever writes or reads evidence does so by a member, so that a misspelt name is an error and not an absent value.

    >>> Observed.OWN_PSI_IO == "own_psi_io", Observed.OWN_PSI_IO.unit
    (True, 's')
    >>> Observed("own_io")
    Traceback (most recent call last):
    ValueError: 'own_io' is not a valid Observed
    """

    unit: str
    meaning: str

    # The last two are of the declaration; who asks by a name gives that alone.
    def __new__(cls, name: str, unit: str = "", meaning: str = "") -> Observed:
        made = str.__new__(cls, name)
        made._value_ = name
        made.unit, made.meaning = unit, meaning
        return made

    WALL = "wall", "s", "victim's process, or the window where the victim is a server"
    MEASURED = "measured", "s", "the part of it that the metric counts over, where the workload states it"
    REQUESTS = (
        "requests",
        "count",
        "of a service that was asked at a stated rate: those answered; `measured` is the sum of their latencies then",
    )
    STARTUP = "startup", "s", "what the platform took before the commands ran; no part of their time"
    CPU = "cpu", "s", "CPU time of the victim's party"
    SYSTEM_CPU = "system_cpu", "s", "the part of it in the kernel"
    READ_BYTES = "read_bytes", "B", "read from devices for it, because memory did not have it"
    MAJOR_FAULTS = (
        "major_faults",
        "count",
        "pages that it touched and that had to be read, from a file or from swap",
    )
    WALL_PER_CPU = "wall_per_cpu", "ratio", "about 1.0 for an undisturbed single-threaded victim"
    RUN_DELAY = (
        "run_delay",
        "s",
        "time its tasks were runnable without a CPU, summed (precision: `TaskWatch`)",
    )
    RUN_DELAY_COVERAGE = (
        "run_delay_coverage",
        "fraction",
        "share of its CPU time the watch saw; run_delay misses the rest",
    )
    VOLUNTARY_SWITCHES = "voluntary_switches", "count", "of the victim's process and its waited-for children"
    INVOLUNTARY_SWITCHES = "involuntary_switches", "count", "of the same: it lost its CPU before it wanted to"
    THROTTLED = (
        "throttled",
        "s",
        "time CPU quotas kept its processes from CPUs, summed over CPUs (see `platforms.quotas`)",
    )
    HELD = "held", "s", "time in which quotas kept its processes from CPUs, however many at once (`held_s`)"
    THROTTLED_PERIODS = "throttled_periods", "count", "how many times"
    STEAL = "steal", "s", "time the hypervisor kept the victim's CPUs, whoever was on them, summed over them"
    STOLEN_LEAST = (
        "stolen_least",
        "s",
        "time in which that kept the victim from running: the least, by how long whoever ran where (`stolen_s`)",
    )
    STOLEN_MOST = "stolen_most", "s", "the same: the most"
    PSI_CPU = "psi_cpu", "s", "time in which some task of the whole host waited for a CPU"
    PSI_IO = "psi_io", "s", "the same for I/O"
    PSI_MEMORY = "psi_memory", "s", "the same for memory"
    OWN_PSI_CPU = "own_psi_cpu", "s", "time in which some task of the victim's cgroup waited for a CPU"
    OWN_PSI_IO = "own_psi_io", "s", "the same for I/O"
    DISK_BUSY = (
        "disk_busy",
        "fraction",
        "of the window with a request in flight: 1.0 is no saturation on a parallel device",
    )
    DISK_QUEUE = "disk_queue", "requests", "mean number in flight or waiting"
    DISK_AWAIT = "disk_await", "ms", "mean time of a request, waiting included"
    DISK_IOPS = "disk_iops", "IOPS", "reads and writes, all parties"
    DISK_BYTES_PER_S = "disk_bytes_per_s", "B/s", "reads and writes, all parties"
    LOOKS = (
        "looks",
        "count",
        "how often it was looked at what the victim's tasks wait for, by their system calls",
    )
    WAITED_FILE_LOCK = (
        "waited_file_lock",
        "s",
        "time in which some task of the victim waited for a lock of a file, by the share of these looks",
    )
    WAITED_SYNC = "waited_sync", "s", "the same for what it had written to be on the device (fsync)"
    WAITED_READ = (
        "waited_read",
        "s",
        "the same for a file to be read; of this, pages, writes and fsync, what looks missed of `own_psi_io` is added",
    )
    WAITED_WRITE = (
        "waited_write",
        "s",
        "the same for a file to be written, or a name in a file system to be changed",
    )
    WAITED_COMPLETION = "waited_completion", "s", "the same for asynchronous input or output to be done"
    WAITED_PEER = "waited_peer", "s", "the same for the other end of a socket, or for any of several things"
    WAITED_SEND = "waited_send", "s", "the same for room to send in"
    WAITED_PAGE = "waited_page", "s", "the same for a page of memory, from a file or from swap"
    SIBLINGS_BUSY = (
        "siblings_busy",
        "s",
        "CPU time on the other hardware threads of the victim's cores, by anybody",
    )
    CACHE_HELD = "cache_held", "B", "of the last-level caches, by the victim's tasks at its end (resctrl)"
    MEMORY_TRAFFIC = (
        "memory_traffic",
        "B",
        "between last-level caches and memory, by the victim's tasks (resctrl)",
    )
    OTHERS_MEMORY_TRAFFIC = "others_memory_traffic", "B", "the same by the other parties that contend started"
    FOREIGN_CPU = (
        "foreign_cpu",
        "s",
        "CPU time on the victim's CPUs by nobody we started: a lower bound, in ticks",
    )
    FREQUENCY = "frequency", "MHz", "mean over the victim's CPUs, before and after"
    SAMPLES = "samples", "count", "of an imported run: how many values its tool took"


Evidence = dict[Observed, Quantity]  # of one trial


def put(evidence: Evidence, name: Observed, value: float) -> None:
    """Write one quantity, in the unit of its name."""
    checked = _checked(name)
    evidence[checked] = (value, checked.unit)


def _checked(name: object) -> Observed:
    if not isinstance(name, Observed):
        raise TypeError(f"evidence is asked for by a member of Observed, not by {name!r}")
    return name


class Observations(Mapping[Observed, Quantity]):
    """Evidence of a trial or a cell, read by member of `Observed` only: any other key raises TypeError.

    Rows of other versions of contend may hold names that this one does not know: they stay in `flat`. neighbours: by name,
    what each burnt meanwhile.

    >>> seen = Observations({"wall": (2.0, "s"), "of_later": (1.0, "s")})
    >>> seen.value(Observed.WALL), seen.value(Observed.CPU), list(seen), list(seen.flat)
    (2.0, None, [<Observed.WALL: 'wall'>], ['wall', 'of_later'])
    >>> seen["wall"]
    Traceback (most recent call last):
    TypeError: evidence is asked for by a member of Observed, not by 'wall'
    """

    __slots__ = ("_all", "neighbours")

    def __init__(
        self,
        of: Mapping[str, Quantity] | Mapping[Observed, Quantity] | None = None,
        neighbours: Mapping[str, Quantity] | None = None,
    ) -> None:
        self._all: dict[str, Quantity] = {str(name): quantity for name, quantity in (of or {}).items()}
        self.neighbours: Mapping[str, Quantity] = neighbours or {}

    @classmethod
    def of_row(cls, row: Mapping[str, object]) -> Observations:
        """The evidence of a trial's row."""
        items = row.get("evidence")
        readings = items if isinstance(items, Sequence) else ()
        return cls({str(item["name"]): (float(item["value"]), str(item["unit"])) for item in readings})

    def __getitem__(self, name: Observed) -> Quantity:
        return self._all[_checked(name)]

    def __contains__(self, name: object) -> bool:
        return _checked(name) in self._all

    def __iter__(self) -> Iterator[Observed]:
        return (_NAMES[name] for name in self._all if name in _NAMES)

    def __len__(self) -> int:
        return sum(name in _NAMES for name in self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observations) and self.flat == other.flat

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Observations({self._all!r}, {self.neighbours!r})"

    def value(self, name: Observed) -> float | None:
        """Value in `name.unit`; None where it was not seen."""
        return self._all[name][0] if name in self else None

    @property
    def flat(self) -> Mapping[str, Quantity]:
        """All evidence, as documents have it."""
        burnt = {f"neighbour {name}": quantity for name, quantity in self.neighbours.items()}
        return {**self._all, **burnt}

    @property
    def apart(self) -> Mapping[str, Quantity]:
        """Observations without what neighbours burnt."""
        return self._all


_NAMES = {str(name): name for name in Observed}
