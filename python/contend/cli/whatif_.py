"""`contend whatif`: a traced storm replayed with edits, and predictions compared with what came of them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from contend.cli.common import print_answer, verb
from contend.errors import BadInput, NoVerdict, ThresholdCrossed
from contend.files import write
from contend.text.answer import VERDICTS, Answer

if TYPE_CHECKING:
    from contend.contention.whatif.prediction import Whatif
    from contend.contention.whatif.storms import Edit

_REPEATED: dict[str, Any] = {"multiple": True}


@click.command("whatif", short_help="What would change if: replay a traced storm with edits.")
@click.argument("sources", metavar="[RUN|TRACE...]", nargs=-1)
@click.option("--hold", metavar="LOCK=X", **_REPEATED, help="What holders of LOCK do takes X of its time.")
@click.option("--unlock", metavar="LOCK", **_REPEATED, help="What holders of LOCK do is done without it.")
@click.option(
    "--remove", metavar="SPAN", **_REPEATED, help="SPAN is not done, nor what is in it or called from it."
)
@click.option("--coalesce", metavar="CALL=N", **_REPEATED, help="N calls in a row of one job become one.")
@click.option("--global-queue", metavar="POOL", **_REPEATED, help="One queue for all workers of POOL.")
@click.option("--workers", metavar="POOL=N", **_REPEATED, help="POOL has N workers.")
@click.option(
    "--size",
    metavar="NAME=N",
    **_REPEATED,
    help="The semaphore, or pool of connections, lets in N at a time.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 100_000), metavar="N", help="N jobs, the recorded ones in turn."
)
@click.option(
    "--job",
    metavar="PATTERN",
    **_REPEATED,
    help="Spans that are jobs (* and ?). Default: jobs that are marked.",
)
@click.option(
    "--cell",
    metavar="CELL",
    help="Of a RUN with several cells: the one whose trials are storms. Default: a line for each.",
)
@click.option("--list", "listing", is_flag=True, help="The locks, pools and spans that edits can name.")
@click.option(
    "--verify",
    metavar="RUN|TRACE",
    **_REPEATED,
    help="After the change: compare with what was predicted. Sources: the storms before it, with the edits, or the"
    " FILE of -o.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Keep the prediction (JSON)."
)
@click.option(
    "--page",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write it as one HTML page, too.",
)
@click.option("--json", "as_json", is_flag=True, help="The answer as one JSON document.")
def command(
    sources: tuple[str, ...],
    hold: tuple[str, ...],
    unlock: tuple[str, ...],
    remove: tuple[str, ...],
    coalesce: tuple[str, ...],
    global_queue: tuple[str, ...],
    workers: tuple[str, ...],
    size: tuple[str, ...],
    jobs: int | None,
    job: tuple[str, ...],
    cell: str | None,
    listing: bool,
    verify: tuple[str, ...],
    output: Path | None,
    page: Path | None,
    as_json: bool,
) -> int:
    """Replay the storm of a TRACE with edits, and say how long its jobs would take.

    A storm is many jobs at once: marked ones (contend.trace.job, requests of a WSGI service), or spans that --job names.
    A job's own work keeps its recorded times; waits for locks, for workers and for answers are simulated, in the order
    of requests. Edits may be combined. Without any, the fixes that suggest themselves are tried and ranked.

    Several TRACEs, or the trials of a RUN, are storms of one kind: from four on there is a prediction interval for the
    next storm. The replay of the unedited trace must reproduce it within 3 %, and what is replayed as recorded must not
    depend on others: else the answer is refused, with the reason (exit code 5). What computes needs its CPU times on
    record (contend trace --cpu-times). Without an interval it is not yet to be trusted.

    Of a RUN of `boot-storm`, without traces, `--jobs N` says what N servers would take, by the batch law; refused where
    the hardware was, or would be, at its limit.

    \b
    Examples:
      contend whatif storm                                     the fixes worth most
      contend whatif storm-* --hold compute_resources=0.5      half the time under that lock
      contend whatif storm-* --coalesce 'rpc call update=8' --global-queue pool -o predicted.json
      contend whatif predicted.json --verify storm-after
      contend whatif runs/boot-storm-… --jobs 20
    """
    from contend.contention.whatif.storms import Edit, cells_of, open_storms

    edits: list[Edit] = [_factor("hold", text) for text in hold]
    edits += [Edit("unlock", name) for name in unlock]
    edits += [Edit("remove", name) for name in remove]
    edits += [_count("coalesce", text) for text in coalesce]
    edits += [Edit("global_queue", name) for name in global_queue]
    edits += [_count("workers", text) for text in workers]
    edits += [_count("size", text) for text in size]
    edits += [Edit("jobs", "", jobs)] if jobs else []
    if verify and output is not None:
        raise BadInput("--verify compares, and makes no prediction to keep", hint="leave -o out")
    if listing and edits:
        raise BadInput("--list says what edits can name, and makes none", hint="leave them out")
    if listing and (verify or output is not None or page is not None):
        raise BadInput(
            "--list says what edits can name, and predicts nothing", hint="leave -o, --page and --verify out"
        )
    if verify:
        return _verify(sources, edits, verify, job, cell, page, as_json)
    if not sources:
        raise BadInput(
            "no trace", hint="contend whatif TRACE…: what contend trace -o DIRECTORY -- COMMAND… recorded"
        )
    from contend.contention.whatif.batches import has_storms, predict

    if len(sources) == 1 and has_storms(Path(sources[0])):
        if edits != [Edit("jobs", "", jobs or 0)]:
            raise BadInput(
                f"{sources[0]} has storms without traces: nothing of them can be edited",
                hint="--jobs N says what N servers would take; `openstack up --traced` and contend hunt for more",
            )
        if job or cell is not None:
            raise BadInput(
                f"{sources[0]} has storms without traces: --job and --cell choose among what is traced",
                hint="leave them out",
            )
        answer = predict(Path(sources[0]), jobs or 1)
        check = _check(sources, edits, job, cell, output, "RUN")
        return _tell(answer, output, page, as_json, _command(sources, edits, job, cell), check)
    if cell is None and not (listing or as_json or output or page):
        cells = cells_of(sources[0]) if len(sources) == 1 else []
        if len(cells) > 1:
            return _each_cell(sources[0], cells, edits, job)
    storms = open_storms(sources, job, cell)
    if listing:
        return _list(storms, as_json)
    from contend.contention.whatif.prediction import whatif

    answer = whatif(storms, edits)
    check = _check(sources, edits, job, cell, output, "AFTER")
    return _tell(answer, output, page, as_json, _command(sources, edits, job, cell), check)


def _command(sources: Sequence[str], edits: Sequence[Edit], job: Sequence[str], cell: str | None) -> str:
    """The command that predicts it."""
    changed = [part for edit in edits for part in edit.options]
    return shlex.join(["contend", "whatif", *sources, *_chosen(job, cell), *changed])


def _chosen(job: Sequence[str], cell: str | None) -> list[str]:
    return [part for pattern in job for part in ("--job", pattern)] + (["--cell", cell] if cell else [])


def _check(
    sources: Sequence[str],
    edits: Sequence[Edit],
    job: Sequence[str],
    cell: str | None,
    output: Path | None,
    after: str,
) -> str:
    """The command that compares what comes after the change with what was predicted; empty where nothing was edited."""
    if not edits:
        return ""
    if output is not None:
        before = shlex.join(["contend", "whatif", str(output), *_chosen(job, cell)])
    else:
        before = _command(sources, edits, job, cell)
    return f"{before} --verify {after}"


def _tell(of: Whatif, output: Path | None, page: Path | None, as_json: bool, again: str, check: str) -> int:
    from contend.report.whatif_terminal import answer, show_answer

    code = 0 if of.gate.passed else NoVerdict.exit_code
    if page is not None:
        from contend.report.whatif_page import render_prediction

        write(page, render_prediction(of, again, check).encode("utf-8"))
    if output is not None:
        kept = Answer(verb(), answer(of), of, verdict=VERDICTS[code])
        output.write_text(json.dumps(kept.to_json(), indent=2) + "\n", encoding="utf-8")
    if as_json:
        print_answer(answer(of), of, code=code)
    else:
        show_answer(of)
        if check and of.gate.passed:
            print(f"after the change, recorded as before: {check}")
        if page is not None:
            print(f"page: {page}")
    if not of.gate.passed:
        raise NoVerdict(f"refused: {of.gate.reason}", hint=_advice(of.regime.refused))
    return 0


def _advice(cpu_bound: bool) -> str:
    if cpu_bound:
        return "measure it instead: make the change, and compare with contend ab or contend compare"
    return "docs/concepts/replay.md says what a replay needs on record; --job PATTERN chooses other jobs"


def _each_cell(run: str, cells: Sequence[str], edits: Sequence[Edit], job: Sequence[str]) -> int:
    """A line for each: what differs between cells on purpose is no repetition of one storm."""
    from contend.contention.whatif.prediction import Whatif, whatif
    from contend.contention.whatif.storms import open_storms
    from contend.report.whatif_terminal import print_cells

    answers: dict[str, Whatif | str] = {}
    for cell in cells:
        try:
            answers[cell] = whatif(open_storms([run], job, cell), edits, rank=False)
        except BadInput as error:  # of this cell: another one may have what the edit names
            answers[cell] = str(error)
    print_cells(edits, answers)
    if not any(isinstance(of, Whatif) and of.gate.passed for of in answers.values()):
        raise NoVerdict("refused in every cell", hint="contend whatif RUN --cell CELL says why in full")
    return 0


def _list(storms: Sequence[Any], as_json: bool) -> int:
    from contend.contention.whatif.storms import listing

    names = listing(storms)
    if as_json:
        counted = ", ".join(f"{len(of)} {kind}" for kind, of in names.items())
        print_answer(f"edits can name {counted}", names)
    else:
        from contend.report.whatif_terminal import print_listing

        print_listing(names)
    return 0


def _verify(
    sources: Sequence[str],
    edits: Sequence[Edit],
    after: Sequence[str],
    job: Sequence[str],
    cell: str | None,
    page: Path | None,
    as_json: bool,
) -> int:
    from contend.contention.whatif.batches import has_storms, measured, times
    from contend.contention.whatif.storms import open_storms
    from contend.contention.whatif.verification import stored, verify, verify_times
    from contend.report.whatif_terminal import print_verification, verified

    if len(sources) == 1 and Path(sources[0]).suffix == ".json":
        if edits:
            raise BadInput(
                "a stored prediction has its edits", hint="leave them out, or name the traces before"
            )
        prediction = stored(Path(sources[0]))
    elif sources:
        from contend.contention.whatif.prediction import whatif

        prediction = whatif(open_storms(sources, job, cell), edits, rank=False).to_json()
    else:
        raise BadInput(
            "nothing was predicted",
            hint="contend whatif FILE --verify RUN, where FILE is of whatif -o, or contend whatif TRACE EDITS --verify RUN",
        )
    if all(has_storms(Path(run)) for run in after):
        wanted = prediction.get("predicted_jobs")
        of = [d for run in after for n, all_of in measured(Path(run)).items() if n == wanted for d in all_of]
        if not of:
            raise BadInput(
                f"no storm of {wanted or 'the same'} servers in {', '.join(after)}",
                hint="contend run boot-storm --set n=N",
            )
        verification = verify_times(prediction, tuple(after), [times(document) for document in of])
    else:
        verification = verify(prediction, open_storms(after, job, cell))
    if page is not None:
        from contend.report.whatif_page import render_verification

        again = f"{_command(sources, edits, job, cell)} {shlex.join(part for of in after for part in ('--verify', of))}"
        write(page, render_verification(verification, again).encode("utf-8"))
    code = {None: NoVerdict.exit_code, True: 0, False: ThresholdCrossed.exit_code}[verification.inside]
    if as_json:
        print_answer(verified(verification), verification, code=code)
    else:
        print_verification(verification)
        if page is not None:
            print(f"page: {page}")
    if verification.inside is None:
        raise NoVerdict(verification.reason or "no verdict", hint=verification.hint)
    if not verification.inside:
        raise ThresholdCrossed(
            "the measured storm lies outside of what was predicted",
            hint="contend hunt says what the jobs wait for now",
        )
    return 0


def _split(option: str, text: str) -> tuple[str, str]:
    name, equals, number = text.rpartition("=")
    if not equals or not name:
        raise BadInput(f"--{option} '{text}' has no '='", hint=f"--{option} NAME=NUMBER")
    return name, number


def _factor(option: str, text: str) -> Edit:
    from contend.contention.whatif.storms import Edit

    name, number = _split(option, text)
    try:
        factor = float(number)
    except ValueError:
        factor = -1
    if not 0 <= factor <= 1000:
        raise BadInput(
            f"--{option} {text}: '{number}' is no part of a time", hint=f"--{option} {name}=0.5 halves it"
        )
    return Edit(option, name, factor)


def _count(option: str, text: str) -> Edit:
    from contend.contention.whatif.storms import Edit

    name, number = _split(option, text)
    if not re.fullmatch(r"[0-9]{1,6}", number) or not 1 <= int(number) <= 100_000:
        raise BadInput(f"--{option} {text}: '{number}' is no number of things", hint=f"--{option} {name}=8")
    return Edit(option, name, int(number))
