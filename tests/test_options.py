"""What is to be written down, and with what: options that cannot be are refused."""

from typing import Any

import pytest

from whispertide.errors import OptionError
from whispertide.options import DecodeOptions


@pytest.mark.parametrize(("name", "value"), [("patience", 0), ("patience", float("nan")), ("seed", -1), ("beam", 0)])
def test_what_cannot_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"expected {name} >"):
        DecodeOptions(**{name: value})
