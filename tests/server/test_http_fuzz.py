"""Schemathesis on the HTTP interface of a live server: requests that its OpenAPI description allows, and others.

Every answer has a status, a type and a shape that the description promises; there is no 5xx, no error in the log, and
somebody else's session meanwhile loses no word.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from few_examples import quick
from served import OfflineModel, keyed, limited, wav
from standing_server import Standing, standing

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

KEY = "a-secret-key"
# What is sent as a file need not be one; and what is no object may still be taken as none at all.
_NOT_CHECKED = ("positive_data_acceptance", "negative_data_rejection")


def fuzz(town: Standing, headers: dict[str, str], examples: int) -> int:
    """Try all operations; returns how many requests were sent."""
    import schemathesis  # a second and more, which processes that run none of these tests are spared
    from schemathesis.checks import CHECKS
    from schemathesis.generation import GenerationMode

    schemathesis.openapi.format("binary", st.one_of(st.just(wav(0.02, 4000)), st.binary(max_size=200)))
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{town.port}/openapi.json")
    checks = [check for check in CHECKS.get_all() if check.__name__ not in _NOT_CHECKED]
    sent = 0
    for found in schema.get_all_operations():
        operation: Any = found.ok()  # type: ignore[union-attr]  # the description is ours
        for mode in GenerationMode:
            if mode is GenerationMode.NEGATIVE and not _has_input(operation):
                continue

            @settings(
                quick(examples),
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            )
            @given(operation.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                nonlocal sent
                sent += 1
                response = case.call(headers=headers)
                assert "Traceback" not in response.text
                case.validate_response(response, checks=checks, headers=headers)

            ask()
    return sent


def _has_input(operation: Any) -> bool:
    """Whether anything can be wrong with a request; a path says only what is not there."""
    return bool(operation.body) or bool(operation.query)


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["open", "with keys"])
def test_any_request(keys: tuple[str, ...]) -> None:
    pytest.importorskip("schemathesis", reason="pip install schemathesis")
    # Wrong keys are tried as fast as they are answered: where addresses are not told apart, none is slowed down.
    options = keyed(KEY, upload_s=60, per_address=0) if keys else limited(upload_s=60)
    headers = {"Authorization": f"Bearer {KEY}"} if keys else {}
    with standing(options, OfflineModel()) as town:

        async def talk() -> int:
            fuzzing = asyncio.create_task(asyncio.to_thread(fuzz, town, headers, 3 if keys else 6))
            while not fuzzing.done():
                async with town.bystander(headers):
                    await asyncio.sleep(0.5)
            return await fuzzing

        assert asyncio.run(talk()) > 30
