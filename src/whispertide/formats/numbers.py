"""Numbers as JSON has them: it knows neither NaN nor infinity."""

import math
from collections.abc import Mapping
from typing import Any


def json_number(value: Any) -> Any:
    """Convert NaN and infinity to null; other values stay."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the numbers among the values."""
    return {key: json_number(value) for key, value in values.items()}
