"""JSON Schema of what a storage sweep says: `sweep` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.studies.storage.result import IOPS, LATENCY, WHY


def sweep() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    point: dict[str, Schema] = {
        "block_size": TEXT,
        "depth": TEXT,
        "engine": TEXT,
        "read": TEXT,
        "pattern": TEXT,
    }
    spot = closed(
        "What the fit says of one point, with the interval of its mean; IOPS or s.",
        (),
        **point,
        value=NUMBER,
        low=NUMBER,
        high=NUMBER,
        measured=maybe(NUMBER, "by the screening, alone; null: this point was not"),
    )
    fit = closed(
        "A response surface: a description, no verdict.",
        n={**COUNT, "description": "points"},
        df=COUNT,
        order={**TEXT, "description": "what the model holds"},
        missed={**NUMBER, "description": "median error factor less 1 at points left out in turn"},
        explained={**NUMBER, "description": "share of the variance of such points that is predicted"},
    )
    pool = closed(
        "One pool: what it is, the screening's design and fits.",
        name=TEXT,
        facts={"type": "object", "additionalProperties": {"type": ["string", "boolean"]}},
        full_factorial=COUNT,
        screened=COUNT,
        design=closed(
            "Of the screening.",
            ("points", "d_efficiency", "largest_aliasing"),
            points=COUNT,
            d_efficiency={
                **NUMBER,
                "description": "precision of the fit, a point, against the full factorial",
            },
            largest_aliasing={**NUMBER, "description": "largest correlation of two factors"},
        ),
        fits={"type": "object", "additionalProperties": fit},
        surfaces=many(
            closed("One metric at one mix.", metric={"enum": [IOPS, LATENCY]}, mix=TEXT, spots=many(spot))
        ),
        ceiling={
            "type": "object",
            "additionalProperties": NUMBER,
            "description": "by block size in bytes, the most IOPS of the device in any trial",
        },
        ceiling_bytes_per_s=NUMBER,
    )
    change = closed(
        "Of IOPS, beside over alone less 1.", value=maybe(NUMBER), low=maybe(NUMBER), high=maybe(NUMBER)
    )
    measured = closed(
        "One load on one pool, measured in blocks without and with the neighbour.",
        pool=TEXT,
        point=TEXT,
        why={"enum": list(WHY)},
        alone={**NUMBER, "description": "IOPS"},
        beside={**NUMBER, "description": "IOPS"},
        change=change,
        verdict=TEXT,
        slowdown=ref("estimate"),
    )
    between = closed(
        "Two pools at one load.",
        first=TEXT,
        second=TEXT,
        point=TEXT,
        serves={**ref("estimate"), "description": "IOPS of the second over those of the first, alone"},
        suffers={**ref("estimate"), "description": "the second's slowdown over the first's"},
    )
    cloud = closed(
        "The cloud, and where its instances and volumes were.",
        ("hosts", "emulated", "backends", "apart"),
        name=TEXT,
        hosts={"type": "object", "additionalProperties": TEXT, "description": "of the two instances"},
        emulated={"type": "boolean", "description": "whether the CPU of an instance is"},
        backends={"type": "object", "additionalProperties": TEXT, "description": "by pool, where it is told"},
        apart={
            "type": "object",
            "additionalProperties": TEXT,
            "description": "by pool, the backend of the neighbour's volume where that is another",
        },
    )
    return closed(
        "What a storage sweep says.",
        mix=TEXT,
        screening=closed("Rounds.", done=COUNT, planned=COUNT),
        neighbour=TEXT,
        pools=many(pool),
        measured=many(measured),
        between=many(between),
        preconditioned=many(
            closed("One file, before anything was measured.", file=TEXT, written_bytes=COUNT, seconds=NUMBER)
        ),
        washout_s={**NUMBER, "description": "median pause after a neighbour"},
        shared_devices={
            "type": "object",
            "additionalProperties": TEXTS,
            "description": "pools by the device, or the cloud's backend, that they share",
        },
        cloud=maybe(cloud, "whose volumes the pools are; null: pools of the host"),
    )
