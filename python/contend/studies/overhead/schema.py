"""JSON Schema of what an overhead study says: `overhead` of the analysis document."""

from __future__ import annotations

from contend.report.schema_parts import COUNT, NUMBER, TEXT, TEXTS, Schema, closed, many, maybe, ref
from contend.stats.platform_effects import KINDS
from contend.stats.platform_forms import FORMS


def overhead() -> Schema:
    """A closed object, with references to the definitions of the analysis document."""
    where: Schema = {
        "application": TEXT,
        "platform": TEXT,
        "provisioning": TEXT,
        "cpus": NUMBER,
        "host_cpus": {**NUMBER, "description": "CPUs of the host, which a run may vary"},
        "chr": {**NUMBER, "description": "its CPUs over the host's"},
    }
    decomposition = closed(
        "PTO and PSO of one application on one platform and provisioning.",
        application=TEXT,
        platform=TEXT,
        provisioning=TEXT,
        host_cpus=NUMBER,
        standing={"enum": ["claim", "description"]},
        refused={**TEXT, "description": "why there is none; empty where there is"},
        pto=ref("estimate"),
        spare=maybe(
            closed("Where it ran.", **where),
            "of platforms with an emulator: the largest size that leaves that a CPU; its ratio is to be read beside PTO",
        ),
        pso=many(closed("One size's.", **where, ratio=ref("estimate"))),
    )
    setting = closed("Where an application ran.", **where)
    effect = closed(
        "A ratio of overhead ratios, paired within blocks.",
        kind={"enum": list(KINDS)},
        over=many(setting),
        under=many(setting),
        ratio=ref("estimate"),
        detectable=maybe(NUMBER, "smallest relative effect seen with 80 % power"),
        meaning=TEXT,
        throttled=maybe(
            closed("Of both sides.", over=NUMBER, under=NUMBER),
            "seconds throttled of each second run, over all CPUs; of effects of a period, burst or placement, where seen",
        ),
    )
    held = closed(
        "One size, predicted from the others.",
        cpus=NUMBER,
        predicted=ref("estimate"),
        measured=ref("estimate"),
        inside=maybe({"type": "boolean"}, "whether both agree; null where no prediction was made"),
    )
    curve = closed(
        "A curve of overhead over size: a description. why_none: why there is none.",
        ("form", "exponent", "coefficients", "chosen", "misfit", "doubt", "held_out"),
        application=TEXT,
        platform=TEXT,
        provisioning=TEXT,
        host_cpus=NUMBER,
        why_none=TEXT,
        form={"enum": list(FORMS)},
        exponent=maybe(NUMBER),
        coefficients=many(NUMBER),
        chosen={"type": "object", "additionalProperties": NUMBER},
        misfit={**NUMBER, "description": "chance of gaps as wide if the form were true"},
        doubt={**TEXT, "description": "why nothing is predicted by it; empty where it is"},
        held_out=many(held),
    )
    practice = closed(
        "What others advise, held against this run.",
        id=TEXT,
        claim=TEXT,
        verdict={"enum": ["confirmed", "refuted", "cannot tell"]},
        said=TEXTS,
    )
    return closed(
        "What the cells of an overhead study say together.",
        host_cpus=COUNT,
        hosts={
            **many(closed("One.", cpus=COUNT, by={"enum": ["whole", "offline", "confined"]})),
            "description": "sizes of the host, where the run varies that, and how it came to have so many CPUs",
        },
        decompositions=many(decomposition),
        effects=many(effect),
        curves=many(curve),
        emulated={**TEXTS, "description": "platforms whose machines were emulated"},
        startup_s={
            "type": "object",
            "additionalProperties": NUMBER,
            "description": "by platform, what starting a command in it took: a median, no part of any ratio",
        },
        notes=TEXTS,
        practices=many(practice),
    )
