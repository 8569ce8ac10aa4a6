"""fsspec: many files were read in batches, each of which waited for its slowest."""

from __future__ import annotations

import asyncio

from fsspec.asyn import AsyncFileSystem
from storm_of_jobs import as_tasks

FIX = {
    "project": "fsspec",
    "before": ["fsspec==2024.2.0"],
    "after": ["fsspec==2024.3.0"],
    "link": "https://github.com/fsspec/filesystem_spec/pull/1544",
    "did": "the next file is begun when any has ended, and not when all of a batch have",
    "edit": [],
    "fits": "none fits: a barrier between batches was replaced by a window",
}
JOBS = 16
FILES = 24
BATCH = 6


class Slow(AsyncFileSystem):
    """Every sixth file is slow to come, as an object store is now and then."""

    async def _cat_file(self, path: str, start: object = None, end: object = None, **_: object) -> bytes:
        await asyncio.sleep(0.06 if int(path) % BATCH == int(path) // BATCH else 0.01)
        return b"ok"

    async def _expand_path(self, path: list[str], **_: object) -> list[str]:
        return list(path)


async def main() -> None:
    files = Slow(asynchronous=True, batch_size=BATCH, skip_instance_cache=True)

    async def job(_: int) -> None:
        found = await files._cat([str(k) for k in range(FILES)])
        assert len(found) == FILES

    await as_tasks(job, JOBS, spacing_s=0.005)


asyncio.run(main())
