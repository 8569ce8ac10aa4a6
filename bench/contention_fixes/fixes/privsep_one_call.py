"""oslo.privsep: the privileged daemon carried out one call after the other."""

from __future__ import annotations

import logging
import time

from oslo_config import cfg
from oslo_privsep import capabilities, priv_context
from storm_of_jobs import in_threads

FIX = {
    "project": "oslo.privsep",
    "before": ["oslo.privsep==1.30.1"],
    "after": ["oslo.privsep==1.31.1"],
    "also": ["six", "msgpack<1", "setuptools<69"],
    "link": "https://github.com/openstack/oslo.privsep/commit/f368430",
    "did": "the daemon runs calls in a pool of threads",
    "edit": [],
    "fits": "none fits: the daemon had no pool",
}
JOBS = 24
THREADS = 16
COMMAND_S = 0.015

context = priv_context.PrivContext(
    __name__, cfg_section="privsep", pypath=f"{__name__}.context", capabilities=[capabilities.CAP_SYS_ADMIN]
)


@context.entrypoint
def command(number: int) -> int:
    time.sleep(COMMAND_S)
    return number


def main() -> None:
    logging.disable(logging.WARNING)
    conf = cfg.CONF
    conf([], project="storm")
    if "thread_pool_size" in conf.privsep:
        conf.set_override("thread_pool_size", THREADS, group="privsep")
    context.start(priv_context.Method.FORK)

    def job(number: int) -> None:
        assert command(number) == number

    in_threads(job, JOBS)
    context.stop()


main()
