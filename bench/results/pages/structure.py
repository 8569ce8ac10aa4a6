"""How the package is built, before it was put into rooms and now."""

from __future__ import annotations

from results.files import Data
from results.words import table


def body(d: dict[str, Data]) -> str:
    """Figures beside each other."""
    before, now = d["structure-before"], d["structure"]
    rows = [
        ["modules at the root of the package", before["root_modules"], now["root_modules"]],
        ["circles of imports, and files in them", _circles(before), _circles(now)],
        ["imports inside functions", before["imports_inside_functions"], now["imports_inside_functions"]],
        ["imports that run upwards", before["upward"], now["upward"]],
        [
            "`isinstance` on a study's scenario, outside `studies/`",
            before["isinstance_on_study"],
            now["isinstance_on_study"],
        ],
        [
            "comparisons of study names, outside `studies/`",
            before["comparisons_of_study_names"],
            now["comparisons_of_study_names"],
        ],
        ["lines of Python in the package", f"{before['python_lines']:,}", f"{now['python_lines']:,}"],
        ["lines of the whole repository", _whole(before), _whole(now)],
    ]
    studies = [
        [
            study,
            *(
                f"{of[study]['files']} in {of[study]['folders']} ({of[study]['outside']})"
                for of in (before["touched_by_study"], now["touched_by_study"])
            ),
        ]
        for study in now["touched_by_study"]
    ]
    folders = sorted({*before["lines"], *now["lines"]})
    lines = [[f"`{name}`", before["lines"].get(name, "–"), now["lines"].get(name, "–")] for name in folders]
    return f"""\
{table(["", "before", "now"], rows, "lrr")}

Files of the package that name a study, in so many folders (in brackets: files that are not its own, under `studies/`). A name that is
also a common word (compare, storm, growth) is counted where it means that word:

{table(["study", "before", "now"], studies, "lrr")}

Lines of Python, by folder:

{table(["folder", "before", "now"], lines, "lrr")}"""


def _circles(d: Data) -> str:
    return f"{len(d['circles'])} of {sum(d['circles'])}" if d["circles"] else "none"


def _whole(d: Data) -> str:
    return f"{sum(d['repository_lines'].values()):,}"
