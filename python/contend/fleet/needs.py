"""The extra `fleet`: asked for once, with one clear error where it is absent."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable

from contend.errors import CannotHonour

INSTALL = "pip install 'contend[fleet]'"
ON_HOSTS = ("distributed",)
HERE = ("distributed", "asyncssh", "cryptography")


def need(modules: Iterable[str] = HERE) -> None:
    """Check that the packages can be imported. Raises CannotHonour."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise CannotHonour(
                f"a fleet needs the Python package '{module}': {error}", hint=INSTALL
            ) from error


STATUS = "127.0.0.1:0"
"""Where the web servers listen that dask starts in a scheduler and in every worker. They have no pages here."""


def settle_dask() -> None:
    """Change Dask's settings for a worker that must not disturb its host, and that hears of a lost peer soon.

    Its defaults profile 100 times a second, look at memory 10 times and tick 50 times: a whole percent of a CPU.
    """
    import dask
    import distributed  # noqa: F401 - which sets up its loggers when it is imported

    for name in ("distributed", "distributed.client"):  # else a line for every question that is asked
        logging.getLogger(name).setLevel(logging.ERROR)
    dask.config.set(
        {
            "distributed.worker.profile.enabled": False,
            "distributed.worker.memory.monitor-interval": "60s",
            "distributed.worker.memory.spill": False,
            "distributed.worker.memory.target": False,
            "distributed.worker.memory.pause": False,
            "distributed.worker.memory.terminate": False,
            "distributed.worker.http.routes": [],
            "distributed.scheduler.http.routes": [],
            "distributed.scheduler.work-stealing": False,
            "distributed.scheduler.active-memory-manager.start": False,
            "distributed.scheduler.worker-ttl": "20s",
            "distributed.admin.tick.interval": "1s",
            "distributed.admin.tick.limit": "30s",
            "distributed.admin.system-monitor.interval": "30s",
            "distributed.admin.system-monitor.disk": False,
            "distributed.admin.system-monitor.gil.enabled": False,
            "distributed.diagnostics.nvml": False,
            "distributed.comm.timeouts.connect": "10s",
            "distributed.comm.timeouts.tcp": "12s",
            "distributed.comm.require-encryption": True,
        }
    )
