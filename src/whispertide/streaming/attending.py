"""What the policies share that decode each window once, without timestamps, and watch its attention."""

from dataclasses import dataclass

from whispertide.decoding.backward_shift import BackwardShift, ShiftRow
from whispertide.decoding.token_words import WordTimes
from whispertide.errors import OptionError
from whispertide.streaming.choice import Choice, setting
from whispertide.streaming.searches import Search
from whispertide.streaming.single_pass import SinglePass
from whispertide.types import CHUNK_SECONDS, FRAME_SAMPLES, SAMPLE_RATE, to_samples

FRAMES_PER_S = SAMPLE_RATE // FRAME_SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending(Choice):
    """Settings of a policy that watches attention. Times in seconds."""

    hard_cap_s: float = setting(
        28.0,
        "windows never get longer; then words are confirmed whether they are certain or not",
        least=4,
        most=CHUNK_SECONDS,
    )
    no_speech: float = setting(0.9, "what is heard with a higher no-speech probability is dropped", least=0, most=1)
    loop_guard: bool = setting(True, "cut down repetition loops before they are confirmed, and in the guess")
    shift_guard: bool = setting(
        False,
        "whether backward shifts end a decode; AlignAtt then hears the window once more, padded to 30 s, or bare where "
        "it was padded",
    )
    shift_median: int = setting(7, "width of the first filter, in frames", least=1, most=101)
    shift_average: int = setting(10, "width of the second filter, in frames", least=1, most=100)
    shift_row: ShiftRow = setting("predicting", "whose attention a token's is")
    shift_from_s: float = setting(0.0, "where in the window arrival is looked for", least=0, most=CHUNK_SECONDS)
    least_s: float = setting(
        0.0, "shorter windows are not decoded, unless they are the last", least=0, most=CHUNK_SECONDS
    )
    silence_s: float = setting(
        0.0, "silence after the last window of an utterance, so that its text may end", least=0, most=CHUNK_SECONDS
    )
    max_tokens: int = setting(224, "the most that a round decodes", least=1, most=400)
    context_tokens: int = setting(
        223, "how much text before the window precedes it (0 = none, not even the user's prompt)", least=0, most=400
    )
    static_prompt: bool = setting(
        True, "the user's prompt stays in front of it; else it scrolls away with what is said"
    )
    word_times: WordTimes = setting(
        "dtw", '"dtw", or "attended": where the attention of the first and last token is strongest'
    )
    heads_first: bool = setting(False, "heads are averaged before word times are worked out")

    def check(self) -> None:
        """A median needs a middle."""
        Choice.check(self)
        if self.shift_median % 2 == 0:
            raise OptionError(f"expected shift_median to be odd; got {self.shift_median}")

    @property
    def hard_cap(self) -> int:
        """The longest window, in samples."""
        return to_samples(self.hard_cap_s)

    def shift(self) -> BackwardShift:
        """The guard against backward shifts."""
        return BackwardShift(
            detect=self.shift_guard,
            median=self.shift_median,
            average=self.shift_average,
            row=self.shift_row,
            search_from=frames(self.shift_from_s),
        )

    def hearing(self, search: Search) -> SinglePass:
        """How rounds are heard, but for what watches them."""
        return SinglePass(
            least=to_samples(self.least_s),
            silence=to_samples(self.silence_s),
            no_speech=self.no_speech,
            loop_guard=self.loop_guard,
            max_tokens=self.max_tokens,
            context_tokens=self.context_tokens,
            static_prompt=self.static_prompt,
            times=self.word_times,
            heads_first=self.heads_first,
            unrolled=search.kind == "unrolled",
        )


def frames(seconds: float) -> int:
    """Encoder frames of 20 ms."""
    return round(seconds * FRAMES_PER_S)
