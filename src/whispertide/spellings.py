"""Devices and types of numbers as faster-whisper and openai-whisper name them, and the settings that they are here."""

from collections.abc import Mapping
from types import MappingProxyType

from whispertide.errors import OptionError
from whispertide.options import PRECISIONS, PROVIDERS, Precision, ProviderName

_PROVIDERS: Mapping[str, ProviderName] = MappingProxyType(
    {"auto": "auto", "cpu": "cpu", "cuda": "cuda", "cuda:0": "cuda"}
)
# CTranslate2's names; "default" keeps the type of the weights there, which people convert to be small.
_PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {
        "default": "int8",
        "auto": "int8",
        "int8": "int8",
        "int8_float32": "int8",
        "float16": "fp16",
        "float32": "fp32",
    }
)


def provider_of(device: str) -> ProviderName:
    """The provider that computes on a `device`. Raises `OptionError` for one that no provider has."""
    if device not in _PROVIDERS:
        raise OptionError(
            f"expected a device among {', '.join(_PROVIDERS)}; got {device!r}: choose one of them, or a provider "
            f"({', '.join(PROVIDERS)})"
        )
    return _PROVIDERS[device]


def precision_of(compute_type: str) -> Precision:
    """The precision of a `compute_type` of CTranslate2. Raises `OptionError` for one that there is not."""
    if compute_type not in _PRECISIONS:
        raise OptionError(
            f"expected a compute type among {', '.join(_PRECISIONS)}; got {compute_type!r}: choose one of them, or a "
            f"precision ({', '.join(PRECISIONS)})"
        )
    return _PRECISIONS[compute_type]
