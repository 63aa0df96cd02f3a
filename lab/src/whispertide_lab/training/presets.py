"""From what a user asks for to all the options of a run: what has proved good for each kind of training.

From scratch, the encoder is helped by letters (CTC) and the cross-attention by the words' times; whoever begins with a
trained checkpoint needs neither, and changes it gently. One that is grown into a larger shape keeps its guided heads.
Needs torch. Knows nothing of command lines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whispertide.checkpoint import load_checkpoint
from whispertide.errors import OptionError
from whispertide_lab.training.batches import BatchOptions, Phase, padded
from whispertide_lab.training.loop import LoopOptions
from whispertide_lab.training.run import trained
from whispertide_lab.training.run_options import OPTIONS, RunOptions, Speech, absolute
from whispertide_lab.training.shapes import guided_heads
from whispertide_lab.training.start import Start, from_checkpoint, from_shape, grown
from whispertide_lab.training.windows import WindowOptions

FINISH_SHARE = 0.2  # of the updates on windows of 30 s, at the end
# The highest rate: of a network from scratch, of one that was grown, of one that is trained further, and of adapters
# (peft's example for Whisper)
SCRATCH_RATE, GROWN_RATE, TUNING_RATE, ADAPTER_RATE = 6e-4, 4e-4, 2e-5, 1e-3


@dataclass(frozen=True, slots=True)
class Wish:
    """What a user asks for; at least one of `shape` and `model`, which together mean growth."""

    speech: tuple[Speech, ...]
    shape: str | None = None
    model: str | None = None
    lora: int = 0
    steps: int = 20_000
    padded_finish: bool = True
    batch_s: float = 60.0
    accumulate: int = 1
    rate: float | None = None
    vocabulary: Literal["auto", "used", "all"] = "auto"
    language: str | None = None
    held_out: tuple[str, ...] = ()
    precision: str = "fp32"
    seed: int = 0


def make_start(wish: Wish, announce: Callable[[str], None]) -> Start:
    """Where the training begins. Raises `OptionError`, and what `load_checkpoint` raises."""
    if wish.shape is not None and wish.lora:
        raise OptionError("expected a trained checkpoint as it is (--from alone) for adapters; --shape changes it")
    if wish.model is not None:
        start = _from_model(wish.model, announce)
        return start if wish.shape is None else grown(start, wish.shape, wish.seed)
    if wish.shape is None:
        raise OptionError("expected --shape, to train from scratch, or --from, to train a checkpoint further, or both")
    return from_shape(wish.shape, wish.seed)


def _from_model(model: str, announce: Callable[[str], None]) -> Start:
    if (Path(model) / OPTIONS).is_file():
        return trained(Path(model))
    return from_checkpoint(load_checkpoint(model, announce=announce))


def make_options(wish: Wish, start: Start) -> RunOptions:
    """All options of the run. Raises `OptionError` for a compact vocabulary under adapters."""
    scratch = wish.model is None
    vocabulary = ("used" if scratch else "all") if wish.vocabulary == "auto" else wish.vocabulary
    if wish.lora and vocabulary == "used":
        raise OptionError("expected the whole vocabulary with --lora, whose adapters leave it unchanged; got used")
    free = GROWN_RATE if wish.shape else TUNING_RATE
    usual = ADAPTER_RATE if wish.lora else SCRATCH_RATE if scratch else free
    rate = usual if wish.rate is None else wish.rate
    lettered = scratch or (start.characters is not None and not wish.lora)
    guided = lettered or wish.shape is not None
    loop = LoopOptions(
        steps=wish.steps,
        rate=rate,
        final_rate=rate / 30,
        warm_up=min(300, max(1, wish.steps // 10)),
        accumulate=wish.accumulate,
        smoothing=0.05 if scratch else 0.0,
        ctc=0.3 if lettered else 0.0,
        guide=0.3 if guided else 0.0,
        guided=start.alignment_heads or guided_heads(start.network.dims),
        precision=wish.precision,
        seed=wish.seed,
    )
    windows = WindowOptions(language=wish.language)
    bucketed = BatchOptions(seconds=wish.batch_s, windows=windows, n_mels=start.network.dims.n_mels)
    return RunOptions(
        speech=wish.speech,
        loop=loop,
        phases=_phases(wish, bucketed),
        began_with=", grown from ".join(name for name in (wish.shape, wish.model) if name),
        lora=wish.lora,
        vocabulary="used" if vocabulary == "used" else "all",
        held_out=tuple(map(absolute, wish.held_out)),
    )


def _phases(wish: Wish, bucketed: BatchOptions) -> tuple[Phase, ...]:
    """Windows of several lengths first, then, if asked for, of 30 s; counted in batches."""
    end = wish.steps * wish.accumulate
    if not wish.padded_finish:
        return (Phase(end, bucketed),)
    turn = round(wish.steps * (1 - FINISH_SHARE)) * wish.accumulate
    return (Phase(turn, bucketed), Phase(end, padded(bucketed)))
