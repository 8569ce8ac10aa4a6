"""Writes docs/reference from the code: the command line, the catalogue, and the JSON Schemas.

`--check` writes nothing and fails when a page is not what the code says; a test runs that.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from contend import cli
from contend.advice.document import AdviceDocument
from contend.analysis.schema import analysis_schema
from contend.analysis.two_runs import Comparison
from contend.cli.serve_ import Listening
from contend.cli.stats_ import Treated
from contend.contention.alibi.verdict import Alibi
from contend.contention.hunt_document import HuntDocument
from contend.contention.whatif.prediction import Whatif
from contend.contention.whatif.verification import Verification
from contend.document.context import Context, StatedContext
from contend.engine.doctor import Doctor
from contend.fetch.order import Fetched
from contend.fleet.up import Fleets
from contend.platforms.destroy import Report
from contend.probes.columns import reference_page
from contend.report.watch_document import WatchDocument
from contend.sample.summary import Summary
from contend.stats.scaling_csv import StormLaw, SustainedLaw
from contend.store.trace_summary import TraceSummary
from contend.studies import scenarios as scenario
from contend.text.answer import Answer
from contend.text.shape import schema
from contend.workloads import load


def _of(*names: str) -> dict[str, Any]:
    """What one of these schemas says, each a file beside this one."""
    found = [{"$ref": f"{name}.schema.json"} for name in names]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _object(*keys: str) -> dict[str, Any]:
    return {"type": "object", "required": list(keys)}


DATA: dict[str, dict[str, Any]] = {
    "run": {"anyOf": [_of("analysis"), _object("seed", "design", "cells", "workloads", "columns", "trials")]},
    "ab": {"anyOf": [_of("analysis"), _object("seed", "design", "cells", "workloads", "columns", "trials")]},
    "report": _of("analysis", "sample", "watch", "trace"),
    "import": _of("analysis"),
    "sample": _of("sample"),
    "watch": _of("watch"),
    "hunt": _of("hunt"),
    "whatif": {"anyOf": [_of("whatif"), _of("whatif-verify"), _object("locks", "pools", "spans")]},
    "compare": _of("comparison"),
    "context": _of("context"),
    "advise": _of("advice"),
    "stats": _of("stats", "stats-scaling"),
    "destroy": _of("destroy"),
    "doctor": _of("doctor"),
    "fleet status": _of("fleet-status"),
    "fetch": _of("fetch"),
    "list": {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "serve": _of("serve"),
    "sql": {"type": "array", "items": {"type": "object"}},
}
PLACE = Path(__file__).parent.parent / "docs" / "reference"


def pages() -> dict[str, str]:
    """File name and text of every page."""
    return {
        "cli.md": command_line(),
        "hosts.md": hosts(),
        "workloads.md": catalogue(),
        "scenario.schema.json": as_json(scenario.json_schema()),
        "workload.schema.json": as_json(load.schema()),
        "series.md": reference_page(),
        "answer.schema.json": as_json(answers()),
        "analysis.schema.json": as_json(analysis_schema()),
        "sample.schema.json": as_json(schema(Summary, "contend recording")),
        "comparison.schema.json": as_json(schema(Comparison, "contend comparison of two runs")),
        "context.schema.json": as_json(schema(Context, "contend context --json")),
        "context-share.schema.json": as_json(schema(StatedContext, "contend context --share --json")),
        "watch.schema.json": as_json(schema(WatchDocument, "contend watch")),
        "advice.schema.json": as_json(schema(AdviceDocument, "contend advice")),
        "alibi.schema.json": as_json(schema(Alibi, "contend alibi")),
        "trace.schema.json": as_json(schema(TraceSummary, "contend report TRACE --json")),
        "hunt.schema.json": as_json(schema(HuntDocument, "contend hunt --json")),
        "whatif.schema.json": as_json(schema(Whatif, "contend whatif --json")),
        "whatif-verify.schema.json": as_json(schema(Verification, "contend whatif --verify")),
        "stats.schema.json": as_json(schema(Treated | tuple[Treated, ...], "contend stats")),
        "stats-scaling.schema.json": as_json(schema(StormLaw | SustainedLaw, "contend stats --scaling")),
        "destroy.schema.json": as_json(schema(Report, "contend destroy")),
        "doctor.schema.json": as_json(schema(Doctor, "contend doctor")),
        "fleet-status.schema.json": as_json(schema(Fleets, "contend fleet status")),
        "serve.schema.json": as_json(schema(Listening, "contend serve")),
        "fetch.schema.json": as_json(schema(Fetched, "contend fetch")),
    }


def hosts() -> str:
    """Hosts of other kinds and what contend does there, as docs/results/hosts.json has it."""
    sys.path.insert(0, str(PLACE.parents[1] / "bench"))
    from results.files import load as load_result
    from results.pages.hosts import body

    kept = load_result("hosts")
    made = kept["made"]
    return f"""# Hosts

What of contend works where, tried until {made["date"][:10]} ([how, and on what](../results/hosts.md)).

{body(kept)}
"""


def answers() -> dict[str, Any]:
    """The one form of every verb's --json; by verb, the schema of what is in it."""
    rules = [
        {
            "if": {"properties": {"verb": {"const": verb}}},
            "then": {"properties": {"data": of}},
        }
        for verb, of in DATA.items()
    ]
    form = schema(Answer, "contend VERB --json")
    form["properties"]["verb"] |= {"enum": list(DATA)}
    return {**form, "allOf": rules}


def as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def command_line() -> str:
    parts = ["# Command line", "", "Generated from the code by `make docs`.", ""]
    for verb in cli.VERBS:
        command: click.Command = importlib.import_module(f"contend.cli.{verb}_").command
        parts += _help(f"contend {verb}", command)
        if isinstance(command, click.Group):
            for name, part in command.commands.items():
                parts += _help(f"contend {verb} {name}", part)
    return "\n".join(parts)


def _help(words: str, command: click.Command) -> list[str]:
    with click.Context(command, info_name=words, max_content_width=100, terminal_width=100) as context:
        return [f"## {words}", "", "```", command.get_help(context), "```", ""]


def catalogue() -> str:
    parts = [
        "# Workloads",
        "",
        "Generated from the catalogue by `make docs`. Yours: [a workload is a file](../guides/workloads.md).",
        "",
    ]
    for name in load.names():
        workload = load.load_file(load.catalogue() / f"{name}.yaml")
        parts += [f"## {name}", "", f"{workload.title}. {workload.about}".strip(), ""]
        parts += [
            f"Dominant resource: {workload.dominant}. Needs: {', '.join(workload.install.apt) or 'nothing'}.",
            "",
        ]
        parts += ["| metric | unit | better | loop |", "|---|---|---|---|"]
        parts += [f"| {k} | {m.unit} | {m.better} | {m.loop} |" for k, m in workload.metrics.items()]
        if workload.parameters:
            parts += ["", "| parameter | default | allowed | |", "|---|---|---|---|"]
            for key, p in workload.parameters.items():
                bounds = ", ".join(str(c) for c in p.choices)
                if not bounds and (p.min is not None or p.max is not None):
                    bounds = " … ".join("" if x is None else f"{x:g}" for x in (p.min, p.max))
                parts.append(f"| {key} | {p.default} {p.unit} | {bounds} | {p.about} |".replace("  ", " "))
        parts.append("")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for name, text in pages().items():
        path = PLACE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    print(("stale: " if check else "written: ") + (", ".join(stale) or "nothing"))
    sys.exit(bool(stale) if check else 0)


if __name__ == "__main__":
    main()
