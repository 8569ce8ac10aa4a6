"""How what-if and hunt did on programs nobody tuned for, by mechanism."""

from __future__ import annotations

from collections.abc import Mapping

from contend.stats.quantiles import clopper_pearson
from results.files import Data
from results.words import table

TRUSTED = ("right", "wrong and trusted", "trusted, undecided", "trusted, not measured")
REFUSED = ("refused rightly", "refused needlessly", "refused, undecided", "refused, not measured")


def body(d: Data) -> str:
    """Answers of what-if, of two naive ones, what a change's size does, hunts, and what leaving recognisers out does."""
    everything = d["groups"][0]
    answers = everything["answers"]
    right, wrong = answers.get("right", 0), answers.get("wrong and trusted", 0)
    unmeasured = answers.get("refused, not measured", 0)
    recorded = ", ".join(f"{count} at {commit or 'no commit'}" for commit, count in d["recorded_at"].items())
    parts = [
        f"""\
{d["programs"]:,} programs of one to three mechanisms each, drawn at random ({", ".join(d["population"])} draws), {everything["edits"]:,}
edits of them. Each edit was done for real, in randomised turns and without the tracer; its truth is decided where both of its
95 % intervals lie within 3.3 %, or all they hold gives one verdict. Wrong is more than 10 % off the median or the makespan, or
the other sign of a change of 5 % or more. Load of the host before a program, of which one a processor
is a campaign's own that keeps it awake and gives way: {_load(d["load"])}. Recorded: {recorded}.{_again(d)}

Answers that are trusted: {_trusted(everything)}. Of those whose truth is decided, {_of(wrong, right + wrong)}
were wrong. What is trusted is always measured; of what is refused, as much as was drawn by chance ({unmeasured} were not).{_supported(d)}""",
        table(
            [
                "mechanism",
                "edits",
                "trusted, right",
                "trusted, wrong",
                "refused rightly",
                "needlessly",
                "trusted, undecided",
                "refused, undecided",
                "not measured",
                "no number",
                *(f"wrong: {name}" for name in everything["naive"]),
            ],
            [_answers(group) for group in d["groups"]],
            "lrrrrrrrrrrr",
        ),
        "How what was trusted came out, by the size of the true change:",
        table(
            ["change", "right", "wrong", "undecided"],
            [
                [name, *(count.get(key, 0) for key in ("right", "wrong and trusted", "trusted, undecided"))]
                for name, count in d["sizes"].items()
            ],
            "lrrr",
        ),
        "What `contend hunt` said of the same programs, where what is planted cost the jobs a tenth of their time:",
        table(
            ["mechanism", "planted one first", "named", "missed", "silent where nothing is planted"],
            [_hunts(group) for group in d["groups"]],
            "lrrrr",
        ),
    ]
    if d["left_out"]:
        parts += [
            "The same traces with one recogniser of the replay switched off:",
            table(
                ["without", "trusted, right", "trusted, wrong", "refused", "undecided"],
                [
                    [
                        one["name"],
                        *(one["answers"].get(key, 0) for key in ("right", "wrong and trusted")),
                        sum(one["answers"].get(key, 0) for key in REFUSED),
                        one["answers"].get("trusted, undecided", 0),
                    ]
                    for one in d["left_out"]
                ],
                "lrrrr",
            ),
        ]
    if d["worst"]:
        parts += ["The worst trusted answers: " + "; ".join(d["worst"]) + "."]
    return "\n\n".join(parts)


def _trusted(group: Data) -> str:
    return _of(sum(group["answers"].get(key, 0) for key in TRUSTED), group["edits"])


def _supported(d: Data) -> str:
    """What comes of it without the programs of which no answer is expected. Older data do not say which these are."""
    supported = next((group for group in d["groups"] if group["name"] == "all that are supported"), None)
    if supported is None or not d.get("unsupported"):
        return ""
    why = "; ".join(f"{name} ({reason})" for name, reason in d["unsupported"].items())
    return f"""

Without programs that have a mechanism which is declared not supported: {_trusted(supported)}. Declared so before these
programs were drawn: {why}."""


def _load(of: list[float]) -> str:
    return "not recorded" if not of else f"median {of[0]:.1f}, most {of[1]:.1f}"


def _again(d: Data) -> str:
    if "moved" not in d:
        return ""
    asked = d.get("asked_for_storms", 0)
    more = f"\nRecorded twelve times instead of six, since the refusal asked for more storms: {asked} of the programs."
    return f"""{more if asked else ""}
Traced and measured again, for their unedited storms took 5 % more or less by then, which is the host's doing: {d["done_again"]} of the
programs. Still so at the third time, and undecided therefore: {d["moved"]} truths."""


def _of(count: int, of: int) -> str:
    if not of:
        return "0 of 0"
    low, high = clopper_pearson(count, of)
    return f"{count} of {of} [{100 * low:.1f}, {100 * high:.1f} %]"


def _answers(group: Mapping[str, dict[str, int]]) -> list[object]:
    keys = (
        "right",
        "wrong and trusted",
        "refused rightly",
        "refused needlessly",
        "trusted, undecided",
        "refused, undecided",
        "refused, not measured",
        "no number",
    )
    naive = [f"{wrong} of {of}" for wrong, of in group["naive"].values()]
    return [group["name"], group["edits"], *(group["answers"].get(key, 0) for key in keys), *naive]


def _hunts(group: Mapping[str, dict[str, int]]) -> list[object]:
    counts = group["hunts"]
    planted = sum(counts.get(key, 0) for key in ("first", "named", "missed"))
    empty = counts.get("silent", 0) + counts.get("false alarm", 0)
    first = _of(counts.get("first", 0), planted)
    return [
        group["name"],
        first,
        counts.get("named", 0),
        counts.get("missed", 0),
        _of(counts.get("silent", 0), empty),
    ]
