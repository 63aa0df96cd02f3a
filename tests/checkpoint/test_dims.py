from dataclasses import asdict

import pytest

from each_row import each_row
from whispertide.checkpoint import ModelDims
from whispertide.errors import CheckpointError

TINY_EN = {
    "model_type": "whisper",
    "activation_function": "gelu",
    "vocab_size": 51864,
    "num_mel_bins": 80,
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 5,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 12,
    "max_source_positions": 1500,
    "max_target_positions": 448,
}


def test_every_dimension_comes_from_its_own_key() -> None:
    dims = ModelDims.from_hf_config(TINY_EN)
    assert asdict(dims) == {
        "n_mels": 80,
        "n_audio_ctx": 1500,
        "n_audio_state": 384,
        "n_audio_head": 6,
        "n_audio_layer": 4,
        "n_vocab": 51864,
        "n_text_ctx": 448,
        "n_text_state": 384,
        "n_text_head": 12,
        "n_text_layer": 5,
    }


@pytest.mark.parametrize(("vocab", "multilingual"), [(51864, False), (51865, True), (51866, True), (52000, True)])
def test_multilingual_by_the_size_of_the_vocabulary(vocab: int, multilingual: bool) -> None:
    assert ModelDims.from_hf_config({**TINY_EN, "vocab_size": vocab}).is_multilingual is multilingual


def test_openai_dims_round_trip(dims: ModelDims) -> None:
    assert ModelDims.from_openai(asdict(dims)) == dims


def test_openai_dims_with_a_name_too_many_or_too_few(dims: ModelDims) -> None:
    values = asdict(dims)
    with pytest.raises(CheckpointError, match=r"unknown \['n_extra'\]"):
        ModelDims.from_openai({**values, "n_extra": 1})
    del values["n_mels"]
    with pytest.raises(CheckpointError, match=r"missing \['n_mels'\]"):
        ModelDims.from_openai(values)


@each_row(
    ("change", "message"),
    [
        ({"model_type": "wav2vec2"}, "got 'wav2vec2'"),
        ({"model_type": None}, "got None"),
        ({"activation_function": "relu"}, "expected activation_function 'gelu'"),
        ({"scale_embedding": True}, "scale_embedding"),
        ({"d_model": 0}, "n_audio_state to be a positive integer; got 0"),
        ({"d_model": "384"}, "positive integer; got '384'"),
        ({"encoder_layers": True}, "n_audio_layer to be a positive integer; got True"),
        ({"encoder_layers": 4.5}, "positive integer; got 4.5"),
        ({"encoder_attention_heads": 5}, "divides the width 384; got 5"),
        ({"decoder_attention_heads": 7}, "divides the width 384; got 7"),
    ],
)
def test_wrong_configurations(change: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        ModelDims.from_hf_config({**TINY_EN, **change})


def test_missing_dimensions_are_named() -> None:
    config = {key: value for key, value in TINY_EN.items() if key not in ("num_mel_bins", "vocab_size")}
    with pytest.raises(CheckpointError, match="lacks num_mel_bins, vocab_size"):
        ModelDims.from_hf_config(config)


def test_encoder_and_decoder_of_different_width(dims: ModelDims) -> None:
    with pytest.raises(CheckpointError, match="same width; got 8 and 16"):
        ModelDims.from_openai({**asdict(dims), "n_text_state": 16})
