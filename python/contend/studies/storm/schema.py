"""JSON Schema of what a storm study says: `storms` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, Schema, closed, many, maybe, ref


def storms() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    counts: Schema = {"type": "object", "additionalProperties": COUNT}
    numbers: Schema = {"type": "object", "additionalProperties": NUMBER}
    estimates: Schema = {"type": "object", "additionalProperties": ref("estimate")}
    size = closed(
        "All counted storms of one size on one network.",
        cell=TEXT,
        n=COUNT,
        network=TEXT,
        storms=COUNT,
        levels={
            **estimates,
            "description": "of one storm's figures, s: median, p90, max, makespan, accepted …",
        },
        phases_s={
            **numbers,
            "description": "of a mean server, from due to ACTIVE; `guest`: from there to its answer, if all answered",
        },
        cpu_s_per_boot={**numbers, "description": "by role; empty where the cloud runs elsewhere"},
        failed=COUNT,
        counts_per_boot={
            **estimates,
            "description": "by the cloud's own counters, without the background and the polls: statements,"
            " `statements of NAME`, commits, messages …; empty where they cannot be read",
        },
        serving=maybe(
            closed(
                "The guests, by TCP or HTTP to their own addresses.",
                answered=COUNT,
                at_once={**COUNT, "description": "to the first attempt: not known to be the guest"},
                timed_out={**COUNT, "description": "no answer in time"},
                levels={
                    **estimates,
                    "description": "s from due to the answer, none unless all answered; after_active and guest (a mean"
                    " one's) from ACTIVE; width: of the interval in which it came",
                },
            )
        ),
    )
    growth = closed(
        "The batch law of the sizes on one network; median, p90 and makespan, ns.",
        network=TEXT,
        start=estimates,
        per_server=estimates,
    )
    networks = closed(
        "One size on two networks: ratio of medians within blocks.",
        n=COUNT,
        baseline=TEXT,
        treatment=TEXT,
        estimate=ref("estimate"),
    )
    return closed(
        "What the storms of a storm study say together.",
        sizes=many(size),
        growth=many(growth),
        networks=many(networks),
        problems={
            **counts,
            "description": "machines that did not come to what was awaited, by what their maker said",
        },
        requests={**counts, "description": "requests, and what went wrong with them"},
        background_per_s={**numbers, "description": "what the counters count while nothing is asked for"},
        per_poll={**numbers, "description": "and for one of our polls"},
        stamps=maybe(
            closed(
                "What nova's notifications say of what was seen without them.",
                heard={**COUNT, "description": "servers"},
                inside={**COUNT, "description": "of these, stamps inside the interval that was seen"},
                error_s={**NUMBER, "description": "from the interval's middle to the stamp, median"},
                largest_error_s=NUMBER,
            )
        ),
        traced=maybe(
            closed(
                "What the services' own traces say of one boot.",
                services={
                    "type": "object",
                    "additionalProperties": {"type": "object", "additionalProperties": numbers},
                    "description": "by cell and service: statements, commits, rollbacks, calls, casts, replies",
                },
                findings=many(
                    closed("A finding of the hunt.", sentence=TEXT, advice=TEXT, kind=TEXT, resource=TEXT)
                ),
                jobs={**TEXT, "description": "what the hunt took for boots"},
                command={**TEXT, "description": "shows the rest"},
                why={**TEXT, "description": "why there is nothing"},
            )
        ),
        disagree={**COUNT, "description": "servers whose own stamps contradict what the client saw"},
        awaited={**TEXT, "description": "what a storm waits for: ACTIVE, served"},
        platform={
            **TEXT,
            "description": "what machines of this host were, emulated or not; `bare` for a cloud's servers",
        },
    )
