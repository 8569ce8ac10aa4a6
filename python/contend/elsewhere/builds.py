"""Builds of a Jenkins job: asked for, followed to their end, stopped.

By python-jenkins. Where the Jenkins is, and who asks, stands in three environment variables and nowhere else. All times
are of Jenkins' own clock, in whole milliseconds, so that how often it is asked widens no figure.

API: https://www.jenkins.io/doc/book/using/remote-access-api/
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from contend.errors import BadInput, HostFailed

GoesOn = Callable[[bool], None]


def unheard(goes_on: bool) -> None:
    """Nobody asked."""


if TYPE_CHECKING:
    import jenkins

KIND = "elsewhere-build"
URL, USER, TOKEN = "CONTEND_JENKINS_URL", "CONTEND_JENKINS_USER", "CONTEND_JENKINS_TOKEN"
LOOK_S = 0.5
ANSWER_S = 30
STOP_S = 60.0
LAST = 20


class Build(NamedTuple):
    """A build that has ended. queued_s: from the request until it began; build_s: from then to its end."""

    number: int
    result: str
    queued_s: float
    build_s: float
    node: str

    @property
    def whole_s(self) -> float:
        return self.queued_s + self.build_s


class Job:
    """A job of the Jenkins that the environment names. name: FOLDER/JOB where it is in a folder.

    Raises BadInput where nothing names a Jenkins.
    """

    def __init__(self, name: str, url: str = "") -> None:
        from jenkins import Jenkins

        url = url or os.environ.get(URL, "")
        if not url.startswith(("http://", "https://")):
            raise BadInput(
                f"no Jenkins is named: {URL} is {'no URL' if url else 'not set'}",
                hint=f"export {URL}=https://ci.example.com {USER}=me {TOKEN}=… (an API token of that user's)",
            )
        if "@" in urlsplit(url).netloc:
            raise BadInput(
                f"{URL} holds a password, which would be told", hint=f"give it in {USER} and {TOKEN}"
            )
        self.name, self.url = name, url.rstrip("/")
        user, token = os.environ.get(USER), os.environ.get(TOKEN)
        self._with_parameters: bool | None = None
        self._jenkins: jenkins.Jenkins = Jenkins(url, user, token, timeout=ANSWER_S)

    def check(self, parameters: Mapping[str, str]) -> None:
        """Check that the job can be built with these parameters. Raises BadInput; HostFailed where Jenkins does not
        answer."""
        job = self._ask(self._jenkins.get_job_info, self.name)
        if not job.get("buildable", True):
            raise BadInput(f"job '{self.name}' cannot be built: it is disabled", hint="enable it in Jenkins")
        known = _defined(job)
        if unknown := sorted(set(parameters) - known):
            raise BadInput(
                f"job '{self.name}' has no parameter '{unknown[0]}'",
                hint=f"it has {', '.join(sorted(known)) or 'none'}",
            )

    def ask_for(self, parameters: Mapping[str, str]) -> int:
        """Request a build and return its number in Jenkins' queue. It is queued at once: not after the seconds that
        Jenkins waits for more changes."""
        from requests import Request

        now = {"delay": "0sec"}
        if self._with_parameters is None:
            self._with_parameters = bool(_defined(self._ask(self._jenkins.get_job_info, self.name)))
        # A job with parameters is built with them, or with their defaults, by another address.
        if self._with_parameters:
            url = self._jenkins.build_job_url(self.name, {**parameters, **now})
        else:
            url = f"{self._jenkins.build_job_url(self.name)}?{urlencode(now)}"
        answer = self._ask(self._jenkins.jenkins_request, Request("POST", url))
        number = str(answer.headers.get("Location", "")).rstrip("/").rpartition("/")[2]
        if not number.isdigit():
            raise HostFailed(
                f"{self.url} did not say where in its queue the build of '{self.name}' is",
                hint="is it a Jenkins, and not what stands before it?",
            )
        return int(number)

    def follow(self, queued: int, within_s: float, goes_on: GoesOn = unheard) -> Build:
        """Wait for the build's end. goes_on: called with True when it is being built, and with False when no more.
        Raises HostFailed where it is cancelled, or takes longer."""
        deadline = time.monotonic() + within_s
        since, number = 0, 0
        while True:
            if not number:
                item = self._ask(self._jenkins.get_queue_item, queued)
                since, number = int(item["inQueueSince"]), _number(item)
                if item.get("cancelled"):
                    raise HostFailed(f"a build of '{self.name}' was cancelled in the queue", hint=self.url)
                waits = str(item.get("why") or "")
            if number:
                build = self._ask(self._jenkins.get_build_info, self.name, number)
                goes_on(bool(build["building"]))
                if not build["building"] and build["result"]:
                    began, took = int(build["timestamp"]), int(build["duration"])
                    # Jenkins stamps a build's beginning and its place in the queue by two looks at one clock.
                    queued_s = max(0, began - since) / 1e3
                    return Build(
                        number, str(build["result"]), queued_s, took / 1e3, str(build.get("builtOn") or "")
                    )
                waits = "it is being built"
            if time.monotonic() > deadline:
                raise HostFailed(
                    f"a build of '{self.name}' has not ended within {within_s:g} s: {waits}",
                    hint="--set parameters.within=… for longer ones",
                )
            time.sleep(LOOK_S)

    def stop(self, queued: int) -> bool:
        """Stop a build, in the queue or running. False where it had ended, or is not known any more. Raises HostFailed."""
        deadline = time.monotonic() + STOP_S
        there = False
        while True:
            item = self._queued(queued)
            number = self._built_of(queued) if item is None else _number(item)
            if number:
                if not self._ask(self._jenkins.get_build_info, self.name, number)["building"]:
                    return there
                self._ask(self._jenkins.stop_build, self.name, number)
            elif item is None or item.get("cancelled"):
                return there
            else:
                self._ask(self._jenkins.cancel_queue, queued)
            there = True
            if time.monotonic() > deadline:
                raise HostFailed(
                    f"build {number or 'in the queue'} of '{self.name}' goes on",
                    hint=f"stop it at {self.url}",
                )
            time.sleep(LOOK_S)

    def _queued(self, number: int) -> dict[str, Any] | None:
        """None of what Jenkins has forgotten, some minutes after it has left the queue."""
        from jenkins import JenkinsException

        try:
            item: dict[str, Any] = self._jenkins.get_queue_item(number)
        except JenkinsException as error:
            if str(error).startswith("queue number["):
                return None
            raise self._refused(error) from None
        except OSError as error:
            raise self._lost(error) from None
        return item

    def _built_of(self, queued: int) -> int:
        """Find the number of the build that had this number in the queue; 0 where it is not among the last ones."""
        last = self._ask(self._jenkins.get_job_info, self.name).get("builds", [])[:LAST]
        numbers = (int(one["number"]) for one in last)
        builds = (self._ask(self._jenkins.get_build_info, self.name, number) for number in numbers)
        return next((int(one["number"]) for one in builds if one.get("queueId") == queued), 0)

    def _ask(self, question: Callable[..., Any], *about: object) -> Any:
        from jenkins import JenkinsException, NotFoundException
        from requests import RequestException

        try:
            return question(*about)
        except NotFoundException:
            raise self._no_job() from None
        except JenkinsException as error:
            if str(error).startswith("job[") and "number[" not in str(error):
                raise self._no_job() from None
            raise self._refused(error) from None
        except RequestException as error:
            raise self._lost(error) from None

    def _no_job(self) -> BadInput:
        return BadInput(
            f"{self.url} has no job '{self.name}' that this user may see", hint="FOLDER/JOB, as its address has it"
        )  # fmt: skip

    def _refused(self, error: Exception) -> HostFailed:
        first = str(error).splitlines()[0]  # Jenkins' page follows
        return HostFailed(f"{self.url}: {first}", hint=f"{USER} and {TOKEN} say who asks")

    def _lost(self, error: Exception) -> HostFailed:
        return HostFailed(
            f"{self.url} does not answer: {type(error).__name__}", hint=f"{URL} says where it is"
        )


def _defined(job: Mapping[str, Any]) -> set[str]:
    """Names of its parameters."""
    return {
        str(one["name"]) for entry in job.get("property", []) for one in entry.get("parameterDefinitions", [])
    }


def _number(item: Mapping[str, Any]) -> int:
    """Number of the build that something in the queue has become; 0 before."""
    return int((item.get("executable") or {}).get("number", 0))


def remove(row: Mapping[str, Any]) -> bool:
    """Stop a build that a ledger tells of. False where it was not there any more. Raises HostFailed, BadInput."""
    if "queue" not in row:  # the run died before Jenkins had answered: which one it is nobody knows
        return False
    url, own = str(row.get("url", "")).rstrip("/"), os.environ.get(URL, "").rstrip("/")
    # The token goes only where the environment says that it belongs.
    if url != own:
        raise HostFailed(
            f"the build is at {url}, and {URL} is {own or 'not set'}; if that Jenkins is yours, set it",
            hint=f"export {URL}={url}",
        )
    return Job(str(row["job"])).stop(int(row["queue"]))
