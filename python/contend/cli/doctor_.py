"""`contend doctor`: what this host can run."""

from __future__ import annotations

import click

from contend.cli.common import print_answer


@click.command("doctor", short_help="Say what this host can run.")
@click.option("--containers", is_flag=True, help="Also start a container of every engine (takes seconds).")
@click.option("--json", "as_json", is_flag=True, help="As one JSON document.")
def command(containers: bool, as_json: bool) -> int:
    """Try what contend uses on this host; say what is missing, what that leaves out, and the fix."""
    from contend.engine.doctor import Doctor, checks
    from contend.environment import fingerprint, summary_line

    if as_json:
        environment = fingerprint()
        document = Doctor(environment, tuple(checks(containers=containers)))
        print_answer(summary_line(environment), document)
        return 0
    print(summary_line(fingerprint()))
    for check in checks(containers=containers):
        mark = {True: "✓", False: "✗", None: "?"}[check.works]
        print(f"  {mark} {check.name:<24} {check.detail}")
        if check.fix:
            print(f"    {'':<24} fix: {check.fix}")
    return 0
