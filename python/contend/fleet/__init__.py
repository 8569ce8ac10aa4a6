"""One scenario on many hosts, over dask.distributed: its scheduler, workers, TLS and connections; the trials are run by
contend's own orchestrator on each host.

    starting machine                                 each host
    coordinator ── client ── scheduler ── TLS ── worker (contend fleet join)
        │                                            └─ child: contend.fleet.part, the orchestrator of one host
        └─ RUN/trials.ndjson  ◄── rows, pulled ───────── its own run directory, ledger, series
"""
