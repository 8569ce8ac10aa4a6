"""The seam of everything that records while trials run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from contend.text.shape import Count, Shape

if TYPE_CHECKING:
    import numpy as np

    Column = np.ndarray[Any, np.dtype[Any]]

    # Columns of equal length; numbers as unsigned 64-bit integers, names as objects.
    Table = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Coded:
    """One table as a probe hands it out: a column in `names` holds positions in its list of names.

    The lists grow with later tables of the same probe; what stands in them stays.
    """

    columns: Mapping[str, Column]
    names: Mapping[str, Sequence[str]]

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def decoded(self) -> Table:
        """The columns with names written out.

        >>> import numpy as np
        >>> table = Coded({"device": np.array([1, 0]), "reads": np.array([7, 9])}, {"device": ["vda", "vdb"]})
        >>> list(table.decoded()["device"]), len(table)
        (['vdb', 'vda'], 2)
        """
        import numpy as np

        return {
            column: np.array(self.names[column], dtype=object)[values.astype(np.intp)]
            if column in self.names
            else values
            for column, values in self.columns.items()
        }


@dataclass(frozen=True, slots=True)
class Cost(Shape):
    """Resources that the probe itself used, and samples that it missed."""

    cpu_ns: Annotated[Count, "its own CPU time"]
    samples: Count
    bpf_ns: Annotated[Count, "CPU time of its BPF programs on whatever CPU they ran"] = 0
    late_max_ns: Annotated[Count, "the latest a sample ever was"] = 0
    dropped: Annotated[Count, "samples that no room was left for"] = 0
    errors: Annotated[Count, "reads that failed"] = 0
    last_error: Annotated[str, "how the last one did"] = ""
