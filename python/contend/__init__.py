"""contend measures, explains and predicts what workloads on shared machines contend for."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
