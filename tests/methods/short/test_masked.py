"""The framing of a masked encoder in a session: the same words whatever portions the audio comes in."""

from functools import cache

import pytest

from reference import NANO, nano
from whispertide.audio.file import load_audio
from whispertide.checkpoint.mask import Mask
from whispertide.errors import CheckpointNotFoundError, OptionError
from whispertide.events import Event
from whispertide.methods.short.masked import Masked
from whispertide.model.engine import LAST_LAYER, Encoded
from whispertide.model.masked import Block
from whispertide.model.whisper import WhisperModel
from whispertide.recipes.assembly import make_executor
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe, parse_overrides
from whispertide.session import Session
from whispertide.streaming.framing import PAD30
from whispertide.streaming.policy import Executor
from whispertide.types import SAMPLE_RATE, FloatArray

STEP = 2 * SAMPLE_RATE
RECIPE = get_recipe("whisper-streaming").replace(
    vad=False, step_s=2.0, search="greedy", framing=Masked(mask="d250", trained=False)
)


@cache
def speech() -> FloatArray:
    """Longer than a block of 5 s."""
    return load_audio(NANO.parent / "audio" / "demo.flac")[: 8 * SAMPLE_RATE]


@cache
def executor() -> Executor:
    return make_executor(nano(), RECIPE)


def play(stream: Session, size: int, *, losing: bool = False) -> list[Event]:
    events = []
    while stream.received < len(speech()):
        events += stream.push(speech()[stream.received :][:size])
        utterance = stream._state.turns.utterance
        if losing and utterance is not None:
            utterance.encoder = None
    return [*events, *stream.finish()]


def said(stream: Session) -> str:
    return "".join(word.text for word in stream.transcript.words)


@pytest.mark.slow
def test_in_any_portions_kept_or_lost_the_same_words() -> None:
    straight = Session(RECIPE, executor())
    play(straight, STEP)
    assert len(said(straight).split()) >= 10
    for size, losing in ((len(speech()), False), (3_333, True)):
        other = Session(RECIPE, executor())
        play(other, size, losing=losing)
        assert said(other) == said(straight)


@pytest.mark.slow
def test_a_restored_session_goes_on_from_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Session(RECIPE, executor())
    stream.push(speech()[: 3 * STEP])
    kept = stream.snapshot()
    state = stream.encoder
    assert state is not None
    blocks: tuple[Block, ...] = state.tensors["blocks"]
    assert state.tensors["mask"] == Mask.parse("d250")
    assert len(blocks) == 6
    play(stream, STEP)
    fresh, encode = [], nano().encode

    def count(*given: object, **named: object) -> Encoded:
        encoded = encode(*given, **named)  # type: ignore[arg-type]
        fresh.append(sum(frames for frames, _ in encoded.computed))
        return encoded

    monkeypatch.setattr(nano(), "encode", count)
    other = Session(RECIPE, executor())
    other.restore(kept)
    play(other, STEP)
    assert said(other) == said(stream)
    assert fresh
    assert fresh[0] in (250, 500)  # the second block; the first too where a louder sound moved the floor


@pytest.mark.slow
def test_one_block_of_the_whole_window_is_the_plain_encoder() -> None:
    mel = nano_mel()
    masked = Masked(mask="d1500", trained=False)(nano(), mel, taps=(LAST_LAYER,))
    plain = PAD30(nano(), mel)
    for ours, theirs in zip(masked.cross_v, plain.cross_v, strict=True):
        assert abs(ours.numpy() - theirs.numpy()).max() < 1e-5


def nano_mel() -> FloatArray:
    from whispertide.features import log_mel

    return log_mel(speech()[: 3 * SAMPLE_RATE + 160])  # an odd number of columns


@pytest.mark.parametrize(
    ("change", "message"),
    [("mask=d700", r"expected mask to be one of d750, d500, .*; got 'd700'"), ("mask=e750", "got 'e750'")],
)
def test_a_mask_that_is_none(change: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_overrides(RECIPE, [change])


def trained(mask: str) -> Recipe:
    return RECIPE.replace(mask=mask, trained=True)


def test_what_was_learned_belongs_to_the_checkpoint_and_not_to_what_an_adapter_makes_of_it() -> None:
    recipe = get_recipe("simulstreaming").replace(framing="masked", mask="d750", truncate="detector")
    executor = make_executor(nano(), recipe)
    assert executor.resources.detector is not None  # type: ignore[attr-defined]


def test_a_checkpoint_without_an_adapter_is_refused() -> None:
    with pytest.raises(
        CheckpointNotFoundError, match=r"whispertide train blocks nano\.en --mask d100`, or choose train"
    ):
        make_executor(nano(), trained("d100"))


@pytest.mark.slow
def test_state_of_another_mask_counts_for_nothing() -> None:
    mel = nano_mel()
    left = Masked(mask="d500", trained=False)(nano(), mel).state
    model: WhisperModel = nano()
    after = Masked(mask="d250", trained=False).after(model, mel, left)
    assert after.state is not None
    assert after.state.tensors["mask"] == Mask.parse("d250")
