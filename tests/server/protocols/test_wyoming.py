"""Wyoming, event by event."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from few_examples import quick
from whispertide.events import Confirmed, Error, Language
from whispertide.server.protocols.base import Audio, Close, Configure, Finish, Flush, Problem, Start
from whispertide.server.protocols.wyoming import Frame, FrameReader, WyomingProtocol, encode
from whispertide.types import SAMPLE_RATE, Word
from wire_conversation import Conversation, opening, said

FORMAT = {"rate": 16_000, "width": 2, "channels": 1}


def event(kind: str, **data: Any) -> bytes:
    return encode(Frame(kind, data))


def chunk(duration_s: float, **form: int) -> bytes:
    form = {**FORMAT, **form}
    size = round(duration_s * form["rate"]) * form["width"] * form["channels"]
    return encode(Frame("audio-chunk", dict(form), bytes(size)))


def connect(words: tuple[Word, ...] = (), seed: int = 0) -> Conversation:
    return Conversation(WyomingProtocol(opening()), words, seed)


def frames(talk: Conversation) -> list[Frame]:
    reader = FrameReader()
    return [frame for reply in talk.replies if isinstance(reply, bytes) for frame in reader.feed(reply)]


def kinds(talk: Conversation) -> list[str]:
    return [frame.type for frame in frames(talk)]


def texts(talk: Conversation, kind: str) -> list[str]:
    return [frame.data["text"] for frame in frames(talk) if frame.type == kind]


def test_describe_names_the_models_and_says_that_transcripts_stream() -> None:
    talk = connect()
    talk.send(event("describe"), event("ping", text="hi"))
    info, pong = frames(talk)
    (program,) = info.data["asr"]
    assert program["supports_transcript_streaming"] is True
    assert [model["name"] for model in program["models"]] == ["nano.en", "base"]
    assert program["models"][1]["languages"] == ["de", "en", "fr"]
    assert (pong.type, pong.data) == ("pong", {"text": "hi"})
    assert talk.performed == [action for action in talk.performed if not isinstance(action, Start)]


def test_a_flood_of_questions_is_noticed_before_many_are_answered() -> None:
    protocol = WyomingProtocol(opening())
    flood = b'{"type":"describe"}\n' * 1000
    answers = protocol.receive(flood[: protocol.piece])
    assert 50 < len(answers) < 110
    assert all(answer is answers[0] for answer in answers), "what is served is written once"


def test_the_reference_implementation_understands_the_info() -> None:
    info = pytest.importorskip("wyoming.info")
    protocol = pytest.importorskip("wyoming.event")
    talk = connect()
    talk.send(event("describe"))
    (frame,) = frames(talk)
    (program,) = info.Info.from_event(protocol.Event(frame.type, frame.data)).asr
    assert (program.name, program.models[0].languages) == ("whispertide", ["en"])


def test_one_command_is_one_transcript_in_pieces() -> None:
    talk = connect(said(8, pause_every=3))
    talk.send(event("transcribe", name="base", language="de-DE", transcript_names=["Ada"], transcript_terms=["Flut"]))
    talk.send(event("audio-start", **FORMAT))
    for _ in range(36):
        talk.send(chunk(0.25))
        talk.step()
    talk.send(event("audio-stop"))
    talk.run()
    chosen = talk.asked()
    assert (chosen.model, chosen.language, chosen.keyterms) == ("base", "de", ("Ada", "Flut"))
    assert kinds(talk)[0] == "transcript-start"
    assert kinds(talk)[-2:] == ["transcript", "transcript-stop"]
    assert kinds(talk).count("transcript-chunk") > 2
    assert texts(talk, "transcript") == ["".join(texts(talk, "transcript-chunk"))] == [talk.text]
    assert len(talk.heard) == 8
    assert [frame.data["language"] for frame in frames(talk) if frame.type == "transcript"] == ["de"]
    assert talk.close is None


def test_several_commands_on_one_connection() -> None:
    talk = connect(said(12))
    for length in (2.5, 4.5):
        talk.send(event("transcribe"), event("audio-start", **FORMAT), chunk(length), event("audio-stop"))
    talk.run()
    assert len(texts(talk, "transcript")) == 2
    assert " ".join(texts(talk, "transcript")) == talk.text
    assert sum(isinstance(action, Start) for action in talk.performed) == 1


def test_the_language_may_change_between_commands() -> None:
    talk = connect()
    talk.send(event("transcribe", language="en"), chunk(1), event("audio-stop"), event("transcribe", language="fr"))
    assert talk.performed[-1] == Configure({"language": "fr", "keyterms": ()})
    talk.send(event("transcribe", language="fr"))
    assert not isinstance(talk.performed[-1], Start)


def test_a_stop_without_audio_is_an_empty_transcript() -> None:
    talk = connect()
    talk.send(event("audio-stop"))
    talk.run()
    assert kinds(talk) == ["transcript-start", "transcript", "transcript-stop"]
    assert texts(talk, "transcript") == [""]


def test_any_format_and_a_change_of_it() -> None:
    talk = connect()
    talk.send(event("audio-start", rate=48_000, width=4, channels=2))
    talk.send(chunk(1, rate=48_000, width=4, channels=2), chunk(1, rate=22_050, width=1), event("audio-stop"))
    total = sum(len(action.samples) for action in talk.performed if isinstance(action, Audio))
    assert abs(total - 2 * SAMPLE_RATE) <= 2
    assert isinstance(talk.performed[-1], Flush)


def test_the_end_of_the_connection_ends_a_command_that_is_open() -> None:
    talk = connect(said(5))
    talk.send(chunk(3))
    talk.hang_up()
    talk.run()
    assert texts(talk, "transcript") == [talk.text] != [""]
    assert talk.close == Close()
    idle = connect()
    idle.hang_up()
    assert idle.performed == [Close()]


@each_row(
    "sent",
    [
        event("audio-start", rate=16_000, width=3, channels=1),
        event("audio-start", rate=16_000, width=2, channels=0),
        event("audio-start", rate="fast", width=2, channels=1),
        encode(Frame("audio-chunk", {}, b"ab")),
        event("transcribe", language="tlh"),
        event("transcribe", transcript_names="Ada"),
    ],
)
def test_events_that_cannot_be_used_are_told(sent: bytes) -> None:
    talk = connect(said(3))
    talk.send(sent, chunk(2), event("audio-stop"))
    talk.run()
    assert kinds(talk)[0] == "error"
    assert "expected" in texts(talk, "error")[0]
    assert texts(talk, "transcript") == [talk.text] != [""]


def test_a_stream_out_of_step_ends() -> None:
    talk = connect()
    talk.send(b"GET / HTTP/1.1\r\n\r\n")
    assert kinds(talk) == ["error"]
    assert talk.close == Close()


def test_unknown_events_are_dropped() -> None:
    talk = connect()
    talk.send(event("run-pipeline"), event("voice-started"), event("select-program", name="x"))
    assert talk.performed == []


@each_row(
    ("sent", "fruitless"),
    [
        (event("run-pipeline"), 1),
        (encode(Frame("run-pipeline", {}, b"x")), 1),
        (event("transcribe", language="en"), 1),
        (event("audio-start", **FORMAT), 1),
        (event("audio-chunk", **FORMAT), 1),
        (chunk(1), 0),
        (encode(Frame("audio-chunk", dict(FORMAT), b"x")), 0),  # half a sample is audio
        (event("describe"), 0),
        (event("run-pipeline") * 5 + chunk(1) + event("audio-chunk", **FORMAT) * 3, 8),
    ],
)
def test_events_that_lead_to_nothing_are_counted(sent: bytes, fruitless: int) -> None:
    talk = connect()
    talk.send(event("transcribe", language="en"), event("audio-start", **FORMAT))
    assert talk.protocol.fruitless == 0
    talk.send(sent)
    assert talk.protocol.fruitless == fruitless


def test_languages_and_failures_are_told() -> None:
    talk = connect()
    talk._perform(talk.protocol.events([Language(0, 1, "de", 0.9), Confirmed(1, 1, (Word(" ja", 0, 1),))]))
    talk._perform(talk.protocol.events([Error(2, 1, "broken", True)]))
    assert kinds(talk) == ["transcript-start", "transcript-chunk", "transcript", "transcript-stop", "error"]
    assert frames(talk)[2].data == {"text": "ja", "language": "de"}
    assert talk.close == Close()
    full = connect()
    full.trouble(Problem("overloaded", "full", True))
    assert frames(full)[0].data == {"text": "full", "code": "overloaded"}


@quick(20)
@given(
    st.lists(st.one_of(st.integers(0, 12_000), st.none(), st.sampled_from(["stop", "start", "cut"])), max_size=30),
    st.integers(0, 99),
    st.integers(0, 6),
)
def test_no_word_is_lost_whatever_is_sent_when(steps: list[int | str | None], seed: int, pauses: int) -> None:
    talk = connect(said(14, pause_every=pauses), seed)
    stops = 0
    for step in steps:
        if step is None:
            talk.step()
        elif isinstance(step, int):
            raw = chunk(step / SAMPLE_RATE)
            talk.send(raw[:20], raw[20:])
        elif step == "stop":
            stops += 1
            talk.send(event("audio-stop"))
        else:
            talk.send(event("audio-start", **FORMAT, timestamp=None))
    talk.hang_up()
    talk.run()
    assert " ".join(filter(None, texts(talk, "transcript"))) == talk.text
    assert len(texts(talk, "transcript")) - stops in (0, 1)
    assert sum(isinstance(action, Finish) for action in talk.performed) <= 1
    assert talk.close == Close()
