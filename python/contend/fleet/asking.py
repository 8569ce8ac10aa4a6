"""Asking hosts' workers, through dask's scheduler: an answer, or that the host is away, soon in both cases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from contend.errors import ContendError, HostFailed
from contend.fleet import up

if TYPE_CHECKING:
    from distributed import Client

MEMBERS_S = 1.0
ANSWER_S = 45.0  # after this a question has no answer


class Away(Exception):
    """The host's worker is not there, or did not answer."""


class Asking:
    """Calls functions in the workers of a fleet's hosts. members: name → worker's address, of those that are there."""

    def __init__(self, client: Client, members: dict[str, str]) -> None:
        self._client, self.members = client, members

    async def ask(
        self, name: str, function: Callable[..., Any], *arguments: Any, limit_s: float = ANSWER_S
    ) -> Any:
        """Call a function in a host's worker. Raises Away, or ContendError where it says what is wrong."""
        self._see_scheduler()
        address = self.members.get(name)
        if address is None:
            raise Away("its worker is gone")
        call = asyncio.ensure_future(
            self._client.run(function, *arguments, workers=[address], on_error="return")
        )
        deadline = time.monotonic() + limit_s
        try:
            while not (await asyncio.wait({call}, timeout=1.0))[0]:
                # A host that is cut off never answers; the scheduler knows sooner than we would.
                if self.members.get(name) != address or time.monotonic() > deadline:
                    raise Away(
                        "its worker is gone"
                        if time.monotonic() < deadline
                        else f"no answer within {limit_s:g} s"
                    )
            replies = call.result()
        except (OSError, TimeoutError) as error:
            raise Away(str(error) or "the connection broke") from error
        finally:
            call.cancel()
        reply = replies.get(address)
        if isinstance(reply, ContendError):
            raise reply
        if isinstance(reply, OSError | TimeoutError) or address not in replies:
            raise Away(str(reply))
        if isinstance(reply, BaseException):
            raise HostFailed(f"{name}: {type(reply).__name__}: {reply}", hint="its worker.log says more")
        return reply

    def _see_scheduler(self) -> None:
        """Raise Away where dask's client has given up its scheduler: it then cannot even ask. All hosts are lost with it."""
        if self._client.status == "closed":
            self.members = {}
            raise Away("the fleet's scheduler is gone")

    async def watch(self) -> None:
        """Keep `members` up to date, until cancelled."""
        while True:
            with suppress(OSError, TimeoutError, Away):
                self._see_scheduler()
                self.members = await up.members(self._client)
            await asyncio.sleep(MEMBERS_S)
