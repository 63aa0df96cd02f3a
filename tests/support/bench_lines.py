"""How `bench run` is called and what it prints, for the tests."""

import json

ONE = ("bench", "run", "--recipes", "whisper-streaming")


def lines(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]
