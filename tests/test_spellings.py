import pytest

from each_row import each_row
from whispertide.errors import OptionError
from whispertide.spellings import precision_of, provider_of


@pytest.mark.parametrize(
    ("device", "provider"), [("auto", "auto"), ("cpu", "cpu"), ("cuda", "cuda"), ("cuda:0", "cuda")]
)
def test_devices(device: str, provider: str) -> None:
    assert provider_of(device) == provider


@pytest.mark.parametrize("device", ["cuda:1", "mps", ""])
def test_a_device_that_no_provider_has_is_refused(device: str) -> None:
    with pytest.raises(OptionError, match=f"among auto, cpu, cuda, cuda:0; got '{device}'.*coreml"):
        provider_of(device)


@each_row(
    ("compute_type", "precision"),
    [("default", "int8"), ("int8", "int8"), ("int8_float32", "int8"), ("float16", "fp16"), ("float32", "fp32")],
)
def test_types_of_numbers(compute_type: str, precision: str) -> None:
    assert precision_of(compute_type) == precision


@pytest.mark.parametrize("compute_type", ["int16", "bfloat16", "int8_float16"])
def test_types_that_there_are_not_are_refused(compute_type: str) -> None:
    with pytest.raises(OptionError, match=f"got '{compute_type}'.*int8-weights"):
        precision_of(compute_type)
