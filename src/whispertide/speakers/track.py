"""Who speaks when: a stream of audio becomes a line of labels, and words get theirs.

    track = SpeakerTrack(embedding, most=4)
    track.feed(samples)              # in any portions: the labels are the same
    words = track.label(words)       # by what has been heard so far
    track.is_settled(word)           # its label is that which it would get later, too

Every `STEP` of audio the last `LENGTH` are heard, if somebody speaks in them, and their vector goes to a voice
(`clusters`). So a moment is heard in several stretches; the one whose middle is nearest knows best who it was. Of the
newest half stretch that is still to come. Where the newest stretch is surely of the voice of the one before it, it
tells as much; where it is not, the voice may be changing, and a word's label is not settled before that one came. The
vectors of past stretches are not kept, but for the few that wait for their voice. Knows nothing of sessions. Time is in
samples.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from whispertide.audio.buffer import AudioBuffer
from whispertide.audio.silero import BLOCK, Silero, SileroState, load_silero
from whispertide.options import MOST_SPEAKERS, check_range
from whispertide.speakers.clusters import Voices
from whispertide.speakers.embedding import VoiceEmbedding
from whispertide.types import FloatArray, Word, goes_on, to_samples

STEP = 16 * BLOCK  # 0.512 s
LENGTH = 48 * BLOCK  # 1.536 s
_VOICED = 0.5  # probability of speech in a block
_LEAST_VOICED = 0.35  # of the blocks of a stretch
_KEPT = to_samples(120)  # labels of older audio: no word is confirmed so late
_REACH = to_samples(3)  # a word further from any speech that was heard has no label
_SURE = 0.65  # cosine with its voice from which a stretch has nobody else in it
_LONGEST = to_samples(2)  # after the middle of a word, in which its label settles


@dataclass(frozen=True, slots=True)
class Heard:
    """A stretch that was heard: its middle, the number of its voice, and whether it surely is nobody else's."""

    middle: int
    speaker: int
    is_sure: bool = True


@dataclass(slots=True)
class TrackState:
    """The state of a track. `voiced`: whether somebody spoke in each of the last blocks; `heard_to`: the end of the
    newest stretch.
    """

    voices: Voices
    audio: AudioBuffer = field(default_factory=AudioBuffer)
    detector: SileroState | None = None
    judged: int = 0
    voiced: tuple[bool, ...] = ()
    heard_to: int = 0
    heard: list[Heard] = field(default_factory=list)

    def copy(self) -> "TrackState":
        """An independent copy."""
        return replace(
            self,
            voices=self.voices.copy(),
            audio=self.audio.copy(),
            heard=list(self.heard),
        )

    def without_voices(self) -> "TrackState":
        """The same without anything by which a person could be known again; who speaks next gets a new number."""
        audio = self.audio.copy()
        audio.drop_before(self.judged)  # the newest speaker's, who would be heard once more
        return replace(self, voices=self.voices.emptied(), audio=audio, voiced=(), heard=list(self.heard))


class SpeakerTrack:
    """The voices of one stream, `most` of them at most. Not for several threads at once."""

    def __init__(self, embedding: VoiceEmbedding, most: int, *, kept: int | None = _KEPT) -> None:
        """`kept`: for how many samples labels are kept; None: all. Raises `OptionError` for a number that cannot be."""
        check_range("speakers", most, 1, MOST_SPEAKERS)
        self._embedding = embedding
        self._kept = kept
        self._detector: Silero = load_silero()
        self._state = TrackState(Voices(most))

    @property
    def heard(self) -> tuple[Heard, ...]:
        """The stretches that were heard and are still kept, in order."""
        return tuple(self._state.heard)

    @property
    def count(self) -> int:
        """The number of voices found."""
        return len(self._state.voices.known)

    def relabel(self, heard: Sequence[Heard]) -> None:
        """Put other labels in place of those of all stretches that are kept."""
        self._state.heard = list(heard)

    def feed(self, samples: FloatArray) -> None:
        """Hear the next samples [n]. Raises `GraphError` where a vector cannot be computed."""
        state = self._state
        state.audio.append(samples)
        while state.audio.end - state.judged >= BLOCK:
            block = state.audio.read(state.judged, state.judged + BLOCK)
            probability, state.detector = self._detector.step(block, state.detector)
            state.judged += BLOCK
            state.voiced = (*state.voiced, probability >= _VOICED)[-LENGTH // BLOCK :]
            if state.judged % STEP == 0:
                self._hear(state.judged)
        state.audio.drop_before(max(state.audio.start, state.judged - LENGTH))

    def label(self, words: Iterable[Word]) -> tuple[Word, ...]:
        """The words with the number of their voice, as far as it is known by now."""
        labelled: list[Word] = []
        for word in words:
            # "can" and "not" are one word of one voice, wherever their times lie
            before = labelled[-1].speaker if labelled and goes_on(word.text) else None
            labelled.append(replace(word, speaker=before or self.speaker(word.start, word.end)))
        return tuple(labelled)

    def is_settled(self, word: Word) -> bool:
        """True if the word's label will stay, as far as can be told: the stretch in whose middle it lies was heard and
        does not wait for its voice, or no change of the voice is in sight. After 2 s every label is settled.
        """
        state, middle = self._state, (word.start + word.end) // 2
        if state.judged - middle >= _LONGEST:
            return True
        nearest = self._nearest(middle)
        if nearest is None or state.voices.waits(nearest.middle):
            return False
        listened = state.judged - state.judged % STEP
        return listened - LENGTH // 2 >= middle or (state.heard_to == listened >= word.end and self._goes_on())

    def _goes_on(self) -> bool:
        """True if the newest stretch is surely of the voice of the one before it."""
        last = self._state.heard[-2:]
        return len(last) == 2 and last[1].is_sure and last[0].speaker == last[1].speaker

    def speaker(self, start: int, end: int) -> int | None:
        """The number of the voice from `start` to `end`: that of the stretch in whose middle this lies most nearly."""
        nearest = self._nearest((start + end) // 2)
        return None if nearest is None else nearest.speaker

    def _nearest(self, middle: int) -> Heard | None:
        """The stretch whose middle is nearest to a sample; None: no speech was heard near it."""
        heard = self._state.heard
        after = bisect_left(heard, middle, key=lambda one: one.middle)
        nearest = min(heard[max(0, after - 1) : after + 1], key=lambda one: abs(one.middle - middle), default=None)
        return None if nearest is None or abs(nearest.middle - middle) > _REACH else nearest

    def snapshot(self) -> TrackState:
        """The state, for `restore`."""
        return self._state.copy()

    def restore(self, state: TrackState) -> None:
        """Go on from `state`."""
        self._state = state.copy()

    def _hear(self, end: int) -> None:
        """Hear the stretch that ends here, or as much of one as there is."""
        state, start = self._state, max(self._state.audio.start, end - LENGTH)
        if sum(state.voiced) < _LEAST_VOICED * (LENGTH // BLOCK):
            return
        middle = (start + end) // 2
        number = state.voices.assign(self._embedding.vector(state.audio.read(start, end)), middle)
        if moved := state.voices.moved:
            state.heard = [replace(one, speaker=number) if one.middle in moved else one for one in state.heard]
        state.heard.append(Heard(middle, number, state.voices.likeness >= _SURE))
        state.heard_to = end
        if self._kept is not None:
            oldest = end - self._kept
            while state.heard and state.heard[0].middle < oldest:
                del state.heard[0]
