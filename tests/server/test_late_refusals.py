"""A 429 comes late, of a bounded number at once; everything else comes at once."""

import asyncio

import pytest

from whispertide.server.http_error import HttpError
from whispertide.server.late_refusals import LateRefusals


async def refused(late: LateRefusals, error: Exception) -> None:
    with pytest.raises(type(error)):
        async with late.delay():
            raise error


async def turns_of(task: "asyncio.Task[None]") -> int:
    """Of the event loop until it is done, but at most a hundred."""
    for turn in range(100):
        if task.done():
            return turn
        await asyncio.sleep(0)
    return 100


@pytest.mark.parametrize("error", [HttpError(401, "no key"), HttpError(503, "full"), ValueError("broken")])
async def test_what_is_no_matter_of_often_comes_at_once(error: Exception) -> None:
    late = LateRefusals(by_s=60)
    assert await turns_of(asyncio.create_task(refused(late, error))) < 3


async def test_who_comes_too_often_waits_and_not_all_of_them() -> None:
    late = LateRefusals(most=2, by_s=60)
    tasks = [asyncio.create_task(refused(late, HttpError(429, "too often"))) for _ in range(3)]
    assert [await turns_of(task) < 100 for task in tasks] == [False, False, True]
    assert late.waiting == 2
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert late.waiting == 0


async def test_it_comes_in_the_end() -> None:
    async with asyncio.timeout(30):
        await refused(LateRefusals(by_s=0.001), HttpError(429, "too often"))
