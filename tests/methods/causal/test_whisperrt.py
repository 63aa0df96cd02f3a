"""The recipe `whisperrt` with the bundled model and its causal adapter, on the first seconds of the bundled audio."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from reference import NANO, nano, own_nano
from whispertide.audio.file import load_audio
from whispertide.checkpoint import load_checkpoint
from whispertide.checkpoint.causal import CausalAdapter
from whispertide.checkpoint.low_rank import merge_adapter
from whispertide.cli.exit import ExitCode
from whispertide.cli.main import app
from whispertide.decoding.prompt import MARGIN_TOKENS
from whispertide.errors import CheckpointNotFoundError, OptionError
from whispertide.events import Confirmed, End, Event, Hypothesis, RoundStats, SpeechStart
from whispertide.methods.causal.stable_beam import StableBeam
from whispertide.methods.causal.stable_search import Scored
from whispertide.model.engine import Encoded, EncoderState
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions, EngineOptions
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.session import Session
from whispertide.streaming.policy import Executor
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.schedule import Recorded
from whispertide.types import FRAME_SAMPLES, SAMPLE_RATE, FloatArray, Span
from whispertide_lab.evaluation.peers.names import to_openai_name
from whispertide_lab.speech.noise import KINDS

SECONDS = 8
STEP = SAMPLE_RATE // 2
RECIPE = get_recipe("whisperrt").replace(vad=False, step_s=0.5)  # few rounds; blocks are what they are


@cache
def speech() -> FloatArray:
    return load_audio(NANO.parent / "audio" / "demo.flac")[: SECONDS * SAMPLE_RATE]


@cache
def executor(recipe: Recipe = RECIPE) -> Executor:
    return make_executor(nano(), recipe)


def session(recipe: Recipe = RECIPE, boundaries: Sequence[int] = ()) -> Session:
    schedule = Recorded(tuple(boundaries)) if boundaries else None
    return Session(recipe, executor(recipe), schedule=schedule)


def shown(events: Iterable[Event]) -> list[Event]:
    """Without what depends on clocks, and on how sure the model was to the last digit."""
    return [
        replace(event, stats=RoundStats(), words=tuple(replace(word, probability=0.0) for word in event.words))
        if isinstance(event, Confirmed | Hypothesis)
        else event
        for event in events
    ]


def play(
    stream: Session, audio: FloatArray, sizes: Sequence[int] = (STEP,), meanwhile: Callable[[], None] = lambda: None
) -> list[Event]:
    """Push all that is still to come in portions of these sizes, over and over."""
    events, number = [], 0
    while stream.received < len(audio):
        events += stream.push(audio[stream.received :][: sizes[number % len(sizes)]])
        meanwhile()
        number += 1
    return shown([*events, *stream.finish()])


@cache
def straight() -> tuple[list[Event], tuple[int, ...], str]:
    """The events of the audio step by step, the boundaries of its rounds, and what was said."""
    stream = session()
    events = play(stream, speech())
    return events, stream.boundaries, said(stream)


def said(stream: Session) -> str:
    return "".join(word.text for word in stream.transcript.words)


@pytest.mark.slow
def test_words_come_out_while_they_are_spoken() -> None:
    events, boundaries, text = straight()
    assert len(text.split()) >= 10
    early = [event for event in events if isinstance(event, Confirmed) and event.at < len(speech())]
    assert len(early) >= 3
    assert isinstance(events[-1], End)
    assert len(boundaries) >= SECONDS
    confirmed = [word for event in events if isinstance(event, Confirmed) for word in event.words]
    assert "".join(word.text for word in confirmed) == text
    assert all(0 <= a.start <= a.end <= b.start + SAMPLE_RATE // 5 for a, b in pairwise(confirmed))


@pytest.mark.slow
@settings(max_examples=3)
@given(sizes=st.lists(st.integers(400, 40_000), min_size=1, max_size=6))
def test_portions_do_not_matter(sizes: list[int]) -> None:
    events, boundaries, _ = straight()
    assert play(session(boundaries=boundaries), speech(), sizes) == events


@pytest.mark.slow
def test_all_at_once_is_the_same_too() -> None:
    events, boundaries, _ = straight()
    assert play(session(boundaries=boundaries), speech(), [len(speech())]) == events


@pytest.mark.slow
def test_a_restored_session_has_the_same_future() -> None:
    events, _, text = straight()
    stream = session()
    half = 4 * SAMPLE_RATE
    before = play_until(stream, half)
    kept = stream.snapshot()
    assert kept.turns.utterance is not None
    assert kept.turns.utterance.encoder is not None
    assert [*before, *play(stream, speech())] == events
    another = session()
    for restored in (stream, another):
        restored.restore(kept)
        assert restored.received == half
        assert [*before, *play(restored, speech())] == events
        assert said(restored) == text


def play_until(stream: Session, end: int) -> list[Event]:
    events: list[Event] = []
    while stream.received < end:
        events += stream.push(speech()[stream.received :][:STEP])
    return shown(events)


@pytest.mark.slow
def test_losing_what_the_encoder_keeps_changes_nothing() -> None:
    events, _, _ = straight()
    stream, lost = session(), 0

    def lose() -> None:
        nonlocal lost
        utterance = stream._state.turns.utterance
        if utterance is not None and stream.received % (3 * STEP) == 0 and utterance.encoder is not None:
            utterance.encoder, lost = None, lost + 1

    assert play(stream, speech(), meanwhile=lose) == events
    assert lost >= 4


def test_each_block_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encode, added = nano().causal.encode, []

    def count(mel: FloatArray, *, state: EncoderState, **options: Any) -> Encoded:
        encoded = encode(mel, state=state, **options)
        assert encoded.state is not None
        added.append((state.frames, encoded.state.frames))
        return encoded

    monkeypatch.setattr(nano().causal, "encode", count)
    play(session(), speech()[: 5 * SAMPLE_RATE])
    assert [begin for begin, _ in added] == [0, *(end for _, end in added[:-1])]
    assert len(added) >= 8
    assert 0 <= added[-1][1] * FRAME_SAMPLES - 5 * SAMPLE_RATE < 5 * FRAME_SAMPLES


def test_silence_says_nothing() -> None:
    stream = session()
    events = play(stream, np.zeros(3 * SAMPLE_RATE, np.float32), [STEP])
    assert said(stream) == ""
    assert not [event for event in events if isinstance(event, Confirmed)]


@pytest.mark.slow
@pytest.mark.parametrize("vad", [True, False])
def test_sounds_without_words_say_nothing(vad: bool) -> None:
    """Of each kind of the corpus without speech; the voice gate lets some of them through."""
    dice = np.random.RandomState(5)
    recipe = RECIPE.replace(vad=vad)
    heard = {}
    for kind, make in KINDS.items():
        sound = np.asarray(0.3 * make(3 * SAMPLE_RATE, dice), np.float32)
        stream = Session(recipe, executor(recipe), recipe.schedule.gate())
        play(stream, sound)
        heard[kind] = said(stream)
    assert {kind for kind, text in heard.items() if text} == set(), heard


def test_the_first_block_is_filled_from_before_the_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as the gate hears speech there is enough to encode; without a pre-roll 600 ms must come first."""
    pause = np.zeros(SAMPLE_RATE, np.float32)
    audio = np.concatenate([pause, speech()[: 2 * SAMPLE_RATE]])
    first: dict[float, tuple[int, int]] = {}
    encode = nano().causal.encode
    for pre_roll in (1.0, 0.0):
        recipe = RECIPE.replace(vad=True, vad_pre_roll_s=pre_roll, step_s=0.1)
        stream = Session(recipe, executor(recipe), recipe.schedule.gate())

        def note(mel: FloatArray, *, pre_roll: float = pre_roll, stream: Session = stream, **options: Any) -> Encoded:
            encoded = encode(mel, **options)
            assert encoded.state is not None
            first.setdefault(pre_roll, (stream.received, encoded.state.frames * FRAME_SAMPLES))
            return encoded

        monkeypatch.setattr(nano().causal, "encode", note)
        events = play(stream, audio, [SAMPLE_RATE // 20])
        began = next(event for event in events if isinstance(event, SpeechStart))
        assert first[pre_roll][0] - began.at <= SAMPLE_RATE // 5 or not pre_roll
        assert len(said(stream).split()) >= 2
    assert first[0.0][0] - first[1.0][0] >= 0.3 * SAMPLE_RATE
    assert first[1.0][1] >= 0.6 * SAMPLE_RATE


def test_less_than_a_block_and_nothing_at_all() -> None:
    for length in (0, 1, 200, 5_000):
        assert isinstance(play(session(), speech()[:length])[-1], End)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"block_s": 0.3}, {"search": "beam", "beam": 3, "holds": "both"}], ids=["block", "beam"]
)
def test_the_published_variants_work(changes: dict[str, Any]) -> None:
    recipe, audio = RECIPE.replace(**changes), speech()[: 5 * SAMPLE_RATE]
    stream = session(recipe)
    events = play(stream, audio)
    straight_words, words = straight()[2].lower().split()[:8], said(stream).lower().split()
    assert len(set(straight_words) & set(words)) >= 4
    again = session(recipe, stream.boundaries)
    assert play(again, audio, [7_777, 31_000]) == events


# --- a checkpoint as the authors publish it ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> WhisperModel:
    """nano.en and its adapter in a file of the authors' layout, for blocks of 100 ms after a first one of 600 ms."""
    import torch

    checkpoint = nano().checkpoint
    adapter = CausalAdapter.of_checkpoint(checkpoint)
    state = {}
    for name in checkpoint.tensors.names():
        stem, _, kind = to_openai_name(name).rpartition(".")
        tensor = torch.from_numpy(checkpoint.tensors.get(name).astype(np.float32))
        state[f"{stem}.base_layer.{kind}" if "attn." in stem else f"{stem}.{kind}"] = tensor
        if name in adapter.matrices:
            for letter, matrix in zip("AB", adapter.matrices[name], strict=True):
                state[f"{stem}.lora_layer.lora_{letter}"] = torch.from_numpy(matrix.T.copy())
    path = tmp_path_factory.mktemp("published") / "nano_100.pt"
    settings = {"gran": 5, "extra_gran_blocks": 5, "rank": adapter.rank}
    torch.save({"dims": asdict(checkpoint.dims), "cfg": settings, "state_dict": state}, path)
    # A file of this layout names no heads that tell where words are.
    with_heads = replace(load_checkpoint(str(path)), generation=checkpoint.generation)
    return WhisperModel.of(with_heads, EngineOptions(precision="fp32", provider="cpu", threads=1))


@pytest.mark.slow
def test_a_published_checkpoint_says_what_its_adapter_says_elsewhere(published: WhisperModel) -> None:
    stream = Session(RECIPE, make_executor(published, RECIPE))
    play(stream, speech())
    assert said(stream) == straight()[2]


@pytest.mark.slow
def test_a_published_checkpoint_has_one_length_and_no_other(published: WhisperModel, tmp_path: Path) -> None:
    """What training would write next to it is not used, so no message says to train one."""
    with pytest.raises(
        OptionError, match=r"expected block_s=0\.1, .* got 0\.3: choose that, or take another checkp"
    ) as no:
        make_executor(published, RECIPE.replace(block_s=0.3))
    assert "train causal" not in str(no.value)
    path = published.checkpoint.argument
    asked = CliRunner().invoke(app, ["train", "causal", path, "--run", str(tmp_path / "run"), "--chunk", "0.3"])
    assert asked.exit_code == ExitCode.USAGE
    assert "already contains one, which would be used instead" in " ".join(asked.stderr.split())


# --- bad input --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_without_an_adapter_says_how_to_make_one(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(own_nano(tmp_path / "mine"))
    with pytest.raises(CheckpointNotFoundError, match=r"causal adapter.*whispertide train causal"):
        make_executor(WhisperModel(checkpoint, nano().engine), RECIPE)


@pytest.mark.parametrize(
    ("name", "value"), [("block_s", 0.05), ("first_s", 0.61), ("block_s", 0.02), ("block_s", 1.02)]
)
def test_blocks_of_other_lengths_are_refused(name: str, value: float) -> None:
    with pytest.raises(OptionError, match=f"expected {name}"):
        RECIPE.replace(**{name: value})


def test_another_first_block_than_the_adapter_was_trained_with_is_refused() -> None:
    with pytest.raises(OptionError, match=r"expected first_s=0\.6, the first block .* got 0\.8: choose that"):
        make_executor(nano(), RECIPE.replace(first_s=0.8))
    make_executor(nano(), RECIPE.replace(block_s=1.0))  # the first is a block at least, as in training


def test_a_prefix_for_which_the_text_has_no_room_is_left_out() -> None:
    """A guess that is nearly as long as the context; all of the prefix and it would not fit."""
    context = nano().dims.n_text_ctx
    guess = Scored((11,) * (context - MARGIN_TOKENS - 2), (-1.0,) * (context - MARGIN_TOKENS - 2))
    plan = RoundPlan(0, Span(0, 16_000), StableBeam(16_000, (guess,)), prefix=(7, 8, 9))
    prompt, prefix = StableBeam(16_000, (guess,))._prompt(
        RoundResources(nano(), RECIPE.framing), plan, DecodeOptions(), None
    )
    assert (prefix, len(prompt.tokens) + len(guess.tokens) <= context) == ((), True)


def test_an_adapter_for_one_length_refuses_another() -> None:
    adapter = replace(CausalAdapter.of_checkpoint(nano().checkpoint), block=5)
    fixed = WhisperModel(nano().checkpoint, nano().engine)
    fixed.causal = WhisperModel(merge_adapter(nano().checkpoint, adapter), nano().engine)
    make_executor(fixed, RECIPE.replace(block_s=0.1))
    with pytest.raises(
        OptionError, match=r"expected block_s=0\.1, .* got 0\.3: .*whispertide train causal .* --chunk 0\.3"
    ):
        make_executor(fixed, RECIPE.replace(block_s=0.3))
