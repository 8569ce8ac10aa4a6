"""For `contend` alone on a terminal: five questions, each with the command that answers it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from contend.cli.own_command import line


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the words of the command that answers it, and what it asks for first."""

    asks: str
    command: Sequence[str]
    wants: Sequence[str] = ()

    @property
    def shown(self) -> str:
        return " ".join(["contend", *self.command])


QUESTIONS = (
    Question("Who slows whom on this host, right now?", ("watch",)),
    Question("What slows my program down?", ("run", "noisy-neighbour", "--", "CMD"), ("CMD",)),
    Question("Which of two commands is faster?", ("ab", "CMD_A", "CMD_B"), ("CMD_A", "CMD_B")),
    Question("What does a container cost my program?", ("run", "platform-overhead", "--", "CMD"), ("CMD",)),
    Question("What does my program wait for?", ("sample", "--", "CMD"), ("CMD",)),
)
_NAMES = {"CMD": "your command", "CMD_A": "the first command", "CMD_B": "the second command"}


def ask(run: Callable[[list[str]], int]) -> int:
    """Offer the questions, ask for what the chosen one needs, show the command and run it. Returns its exit code."""
    click.echo("What do you want to know?")
    for number, question in enumerate(QUESTIONS, 1):
        click.echo(f"  {number}  {question.asks:<42} {question.shown}")
    click.echo("contend --help shows every verb; contend doctor says what this host can run.")
    answer = click.prompt("1–5, or Enter to leave", default="", show_default=False).strip()
    if not answer:
        return 0
    if answer not in map(str, range(1, len(QUESTIONS) + 1)):
        raise click.UsageError(f"'{answer}' is no number from 1 to {len(QUESTIONS)}")
    question = QUESTIONS[int(answer) - 1]
    given = {want: click.prompt(_NAMES[want].capitalize()).strip() for want in question.wants}
    words = [given.get(word, word) for word in question.command]
    if "CMD" in given:
        words[-1:] = shlex.split(line([given["CMD"]]))
    click.echo(f"$ {shlex.join(['contend', *words])}")
    return run(words)
