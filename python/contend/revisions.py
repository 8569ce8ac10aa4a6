"""Git revisions named by a comparison: there before anything is made, or a clear error."""

from __future__ import annotations

import subprocess

from contend.errors import CannotHonour, ScenarioError
from contend.scenario import Compare


def check_revisions(scenario: Compare) -> None:
    """Raises ScenarioError for a revision that the variant's repository does not have, CannotHonour without git."""
    for variant in scenario.variants:
        if not variant.rev:
            continue
        try:
            done = subprocess.run(
                [
                    "git",
                    "-C",
                    variant.directory,
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    f"{variant.rev}^{{commit}}",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise CannotHonour("comparing revisions needs git", hint="apt-get install git") from error
        if done.returncode != 0:
            where = f"the repository at {variant.directory}"
            raise ScenarioError(
                f"'{variant.rev}' is no commit in {where}"
                if not done.stderr
                else f"{variant.directory} is in no git repository",
                hint="git log --oneline -5 shows the latest; a tag or branch will do"
                if not done.stderr
                else "run it inside the repository",
            )
