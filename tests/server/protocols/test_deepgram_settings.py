"""What a client of Deepgram may set, in the address and later, and what is refused."""

from typing import Any

import numpy as np
import pytest

from deepgram_talk import RAW, listen
from each_row import each_row
from opus_files import opus_file
from whispertide.checkpoint.languages import DETECT
from whispertide.server.protocols.base import Audio, Configure, ProtocolError
from whispertide.server.protocols.deepgram import DeepgramProtocol
from whispertide.server.protocols.encodings import AudioInput
from whispertide.types import SAMPLE_RATE
from wire_conversation import Conversation, opening, silence


def test_any_rate_any_channels_any_of_its_encodings() -> None:
    for encoding, width in (("linear16", 2), ("linear32", 4), ("mulaw", 1), ("alaw", 1)):
        talk = listen(encoding=encoding, sample_rate="44100", channels="2")
        talk.send(silence(2.0, 44_100, 2 * width), {"type": "Finalize"})
        total = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
        assert abs(total - 2 * SAMPLE_RATE) <= 1


def test_channels_are_mixed() -> None:
    talk = listen(channels="2")
    talk.send(np.array([[8_192, -8_192], [16_384, 0]] * 160, np.int16).tobytes())  # a piece of 20 ms
    (audio,) = [action for action in talk.performed if isinstance(action, Audio)]
    assert audio.samples.tolist() == [0.0, 0.25] * 160


@pytest.mark.parametrize("cut", [1, 3, 100])
@pytest.mark.parametrize(("container", "options"), [("ogg", {}), ("webm", {"live": "1"})])
def test_a_stream_without_encoding_may_be_in_a_container(container: str, options: dict[str, str], cut: int) -> None:
    """Browsers send its first byte alone."""
    packets, file = opus_file(container, **options)
    talk = Conversation(DeepgramProtocol(opening()))
    talk.send(file[:cut])
    talk.send(file[cut:])
    assert talk.problems == []
    heard = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
    decoder = AudioInput("opus")
    assert heard == sum(len(decoder.feed(packet)) for packet in packets) > 15_000


def test_another_container_is_refused() -> None:
    talk = Conversation(DeepgramProtocol(opening()))
    talk.send(b"RIFF" + bytes(40))
    (problem,) = talk.problems
    assert problem.fatal
    assert "linear16" in problem.message


def test_settings_come_from_the_address() -> None:
    wanted = listen(model="nova-3", language="en-US", keyterm=["Whispertide", "tide"], keywords=["nano:2", "base"])
    chosen = wanted.asked()
    assert (chosen.model, chosen.language, chosen.strict_model) == ("nova-3", "en", False)
    assert (chosen.prompt, chosen.keyterms) == ("", ("Whispertide", "tide", "nano", "base"))
    assert listen(language="multi").asked().language == DETECT
    assert listen().asked().language is None
    assert listen(keywords=["nano:2", "base:-10"]).asked().keyterms == ("nano",)  # unwanted


@pytest.mark.parametrize(
    ("query", "language", "languages"),
    [
        ({"detect_language": "true"}, DETECT, ()),
        ({"detect_language": "false"}, None, ()),
        ({"detect_language": ["de", "fr-CA"]}, DETECT, ("de", "fr")),
        ({"language": "multi", "language_hint": ["en", "de"]}, DETECT, ("en", "de")),
        ({"language": "de", "detect_language": ["de", "fr"]}, "de", ()),
    ],
)
def test_languages_to_detect_come_from_the_address(
    query: dict[str, Any], language: str | None, languages: tuple[str, ...]
) -> None:
    chosen = listen(**query).asked()
    assert (chosen.language, chosen.languages) == (language, languages)


@pytest.mark.parametrize(
    "query",
    [
        {"encoding": "amr-nb"},
        {"sample_rate": "fast"},
        {"sample_rate": "1"},
        {"sample_rate": "9" * 400},
        {"channels": "0"},
        {"channels": "65536"},
        {"language": "tlh"},
        {"utterance_end_ms": "soon"},
        {"endpointing": "nan"},
        {"interim_results": "perhaps"},
    ],
)
def test_impossible_addresses_are_refused(query: dict[str, str]) -> None:
    with pytest.raises(ProtocolError, match="expected"):
        DeepgramProtocol(opening(**{**RAW, **query}))


def test_parameters_without_effect_are_warned_of_in_the_metadata() -> None:
    """In the form of their service's warnings (`metadata.warnings` of a recording)."""
    talk = listen(numerals="true", redact="pci", tag=["a", "b"], diarize="false", punctuate="true", token="secret")
    talk.send({"type": "CloseStream"})
    talk.run()
    (metadata,) = talk.json("Metadata")
    assert metadata["warnings"] == [
        {"parameter": name, "type": "unsupported_parameter", "message": f"{name} has no effect here"}
        for name in ("numerals", "redact", "tag")
    ]
    many: dict[str, Any] = {f"p{number}": "1" for number in range(1_000)}
    flood = listen(**many)
    flood.send(b"")
    flood.run()
    assert len(flood.json("Metadata")[0]["warnings"]) == 40


def test_features_that_are_not_done_are_a_failure_of_configure() -> None:
    talk = listen()
    talk.send({"type": "Configure", "features": {"numerals": True, "punctuate": True}})
    (failure,) = talk.json()
    assert failure["type"] == "ConfigureFailure"
    assert failure["code"] == "CONFIGURE_FEATURES_NOT_SUPPORTED"
    assert failure["description"].endswith("got numerals")
    talk.send({"type": "Configure", "features": {"numerals": False, "punctuate": True}})
    assert talk.json()[-1]["type"] == "ConfigureSuccess"
    talk.send({"type": "Configure", "features": ["numerals"]})
    assert talk.json()[-1]["type"] == "Error"


@each_row(
    ("terms", "expected"), [(["x" * 6_000, "y" * 6_000], "100 characters"), ([f"x{n}" for n in range(501)], "500")]
)
def test_terms_that_are_refused_are_a_failure_of_configure(terms: list[str], expected: str) -> None:
    """With the code that their clients know: they wait for a success or a failure."""
    talk = listen()
    talk.send({"type": "Configure", "keyterms": terms})
    (failure,) = talk.json()
    assert failure["type"] == "ConfigureFailure"
    assert failure["code"] == "CONFIGURE_KEYTERM_LIMIT_EXCEEDED"
    assert expected in failure["description"]
    assert not [action for action in talk.performed if isinstance(action, Configure)]


def test_configure_changes_the_key_terms() -> None:
    talk = listen()
    talk.send({"type": "Configure", "keyterms": ["tide", "wave"], "features": {"numerals": True}})
    assert talk.performed[-2] == Configure({"keyterms": ("tide", "wave")})
    assert talk.json()[0]["type"] == "ConfigureSuccess"
    assert talk.json()[0]["keyterms"] == ["tide", "wave"]
    assert [warning["parameter"] for warning in talk.json()[0]["warnings"]] == ["numerals"]
    talk.send({"type": "Configure", "keyterms": "tide"})
    assert talk.json()[-1]["type"] == "Error"
