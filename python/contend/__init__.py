"""contend measures, explains and predicts what workloads on shared machines contend for."""

from __future__ import annotations

__version__: str
"""As installed; Cargo.toml says what it is."""
__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib.metadata  # takes longer than the rest of a start, and few ask

    return importlib.metadata.version("contend")
