"""A round in one decode that its attention watches, and in a second one where the first went wrong.

What AlignAtt, `tide`, NPUsper and their kin need: `SinglePass` is how they hear a window. Knows the model and the
framing, nothing of what is confirmed, of other rounds or of sessions.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from whispertide.decoding.guards import Halt
from whispertide.decoding.longform import Cost
from whispertide.decoding.search import Guard
from whispertide.features import Columns, Features
from whispertide.methods.attention.attended_decode import AttendedDecode
from whispertide.methods.attention.listening import HeardWords, Job, Listening
from whispertide.model.engine import LAST_LAYER, EncoderState
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30
from whispertide.streaming.round import EncodedWindow, Equipment, RoundPlan, RoundResult
from whispertide.types import FRAME_SAMPLES, HOP_LENGTH, N_SAMPLES, SAMPLE_RATE, FloatArray, Span

LOG_MEL = "log_mel"  # in the state of an encoder that hears every window by itself: the `Columns` that are known
UNHEARD = SAMPLE_RATE  # so much audio after the last word may be the pause that ended the utterance


@dataclass(frozen=True, slots=True)
class SinglePass(Listening):
    """A `round.Hearing`: one decode."""

    def encode(
        self, equipment: Equipment, plan: RoundPlan, audio: FloatArray, state: EncoderState | None
    ) -> EncodedWindow | None:
        """The window, with what follows it. None: it is too short."""
        if len(audio) < HOP_LENGTH or (len(audio) < self.least and not plan.is_last):
            return None
        silence = self.silence if plan.is_last else 0
        if 0 < silence <= N_SAMPLES - len(audio):  # so that the text may end; where a window has room for that
            audio = np.pad(audio, (0, silence))
        began = time.perf_counter()
        features = _features(equipment, plan.window, audio, state)
        taps = (LAST_LAYER,) if equipment.detector is not None and self.detect_end else ()
        frame = PAD30 if self._is_short(plan) else None
        opened = equipment.open(features, features.frames, state, taps, frame, began=began)
        if equipment.suffix is not None or opened.encoded.state is not None:
            return opened  # what is known would not be asked for, or the framing keeps something itself
        known = Columns.of_window(features.raw[:, :], plan.window.start // HOP_LENGTH, len(plan.window))
        return replace(opened, encoded=replace(opened.encoded, state=EncoderState({LOG_MEL: known}, 0)))

    def decode(
        self,
        equipment: Equipment,
        plan: RoundPlan,
        opened: EncodedWindow,
        options: DecodeOptions,
        guards: Sequence[Guard] = (),
    ) -> RoundResult[HeardWords]:
        """The decode, and another where that one shifted backward or stopped short."""
        job = Job(equipment, plan, self, options, guards, hushed=opened.hushed, costs=[opened.cost])
        features, encoded = opened.features, opened.encoded
        # From the plan's window and not from the features, which may have silence and a hush word at their end.
        frames = _encoder_frames(len(plan.window) // HOP_LENGTH)
        # What was appended so that the text may end. It is heard, but what attends to it was not said.
        job.silence = _encoder_frames(features.frames) - frames
        detector = equipment.detector if self.detect_end else None
        language = equipment.language(encoded, options, plan)
        if equipment.waits(plan, language):
            return equipment.result(plan, None, language, job.costs, 0)
        decode = AttendedDecode(job, encoded, min(frames, encoded.valid_frames), language.language, plan.prefix)
        listen: Listening = self
        heard = decode.run(listen, detector)
        if (again := self._again(heard.halt)) is not None:
            decode = self._once_more(job, features.window(0, features.frames), frames, language.language)
            # The window was encoded again without the layer that the detector looks at.
            listen, detector = again, None
            heard = replace(decode.run(listen, None), retried=True)
        if self._stopped_short(heard, plan):
            heard = replace(decode.run(replace(listen, watch=self.unbounded), detector), retried=heard.retried)
        return equipment.result(plan, heard, language, job.costs, len(decode.found.best.tokens))

    def _is_short(self, plan: RoundPlan) -> bool:
        """Whether the whole utterance is about a single word, which checkpoints hear worst without padding."""
        return plan.is_last and len(plan.window) <= self.short

    def _again(self, halt: Halt | None) -> Listening | None:
        """How the window is heard once more; None: it is not."""
        if halt is None:
            return None
        # The very same halt as in the round before: reason, place and token.
        if halt == self.retry:  # the 30 s fallback of NPUsper: no guards of attention, the real end of text
            return replace(self, watch=(), real_end=True, must_speak=True, retry=None, detect_end=False)
        shifted = _turned_back(halt) if self.believes_jumps else halt.reason == "backward-shift"
        if shifted and self.again is not None:
            return replace(self, watch=self.again, again=None, detect_end=False)
        return None

    def _stopped_short(self, heard: HeardWords, plan: RoundPlan) -> bool:
        """Whether a guard left audio unheard that no later round will hear.

        Attention is one sign among others. A first token that attends to the silence after the window, say, ends
        the decode before it began, and a whole sentence would be lost. What turned back would only do so again.
        """
        if self.unheard_from is None or heard.halt is None or (self.believes_jumps and _turned_back(heard.halt)):
            return False
        heard_to = heard.words[-1].spoken_by if heard.words else self.unheard_from
        return plan.window.end - heard_to > UNHEARD

    def _once_more(self, job: Job, mel: FloatArray, frames: int, language: str) -> AttendedDecode:
        """In the other framing, because in the same one it would say the same; NPUsper's fallback is always padded."""
        usual = job.equipment.frame
        other = BARE if usual == PAD30 else usual if self._is_short(job.plan) else PAD30
        is_fallback = self.retry is not None
        frame = PAD30 if is_fallback else other
        # `Features.window`, unlike `followed`, leaves the hush word out.
        job.hushed = False
        began = time.perf_counter()
        # On the model that decodes: the one that encodes may be busy with the next round.
        encoded = frame(job.equipment.model, mel)
        job.costs.append(Cost("encode", time.perf_counter() - began, encoded.computed))
        return AttendedDecode(job, encoded, frames, language, () if is_fallback else job.plan.prefix)


def _features(equipment: Equipment, window: Span, audio: FloatArray, state: EncoderState | None) -> Features:
    """Those of a window's audio and the silence after it; what the round before left is not computed again."""
    n_mels = equipment.encodes.dims.n_mels
    if equipment.suffix is not None:
        return Features.of([audio], n_mels, equipment.suffix)
    known = None if state is None else state.tensors.get(LOG_MEL)
    raw = (known or Columns.none(n_mels)).window(audio, window.start // HOP_LENGTH, len(window))
    return Features.of_raw(raw, len(audio))


def _turned_back(halt: Halt) -> bool:
    """Whether the decode was about to say again what it had said, or had lost its place."""
    return halt.reason in ("backward-shift", "rewind")


def _encoder_frames(mel_frames: int) -> int:
    return -(-mel_frames * HOP_LENGTH // FRAME_SAMPLES)
