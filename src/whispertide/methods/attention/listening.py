"""One decode of a window: its settings, its result, and the costs of a round so far.

What policies ask for and get back (`DecodeSettings`, `HeardWords`); `single_pass` is the decode itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from whispertide.decoding.guards import Halt, Watch
from whispertide.decoding.search import Cost, Guard, StopReason
from whispertide.decoding.token_words import TokenWord, WordTimes, tokens_of
from whispertide.options import DecodeOptions
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.types import FloatArray


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """The settings of one decode of a window, without timestamps, watched by its own attention.

    watch           guards of the attention
    least           samples: a shorter window is not decoded unless it is the last
    silence         samples of silence after the last window, so that its text may end
    short           samples: a last window that is no longer is padded to 30 s, whatever the framing
    must_speak      the decode may not begin with its end (SimulStreaming)
    real_end        whether end of text ends it; else the second-best token is taken (NPUsper's code)
    no_speech       a window whose no-speech probability is higher is taken for silence
    loop_guard      end a decode that repeats itself
    same_token      so many copies of one token in a row end a decode too, and are dropped; 0: no number does
    max_tokens      the most that is decoded
    context_tokens  the most that is shown of the text before the window, the user's prompt included
    static_prompt   the user's prompt always stays in front of that; else it scrolls away as text grows
    times           how words are timed; `heads_first`: the heads are averaged before anything else (NPUsper)
    detect_end      ask the word-truncation detector, if there is one, about the last word
    retry           if the decode halts just there again, decode the window once more, padded to 30 s and unwatched
    again           if attention shifts backward, decode the window again, watched by these alone: padded to 30 s, or
                    bare where it was padded; None: what stands before the shift is all that was found
    believes_jumps  a rewind asks for that, too, and text that ends in either is never decoded unwatched
    unheard_from    decoded by earlier rounds up to this sample; where a guard stops more than `UNHEARD` before the
                    window's end, it is decoded again, watched by `unbounded` alone; None: never
    rescue          if the mean log-probability is lower, try again with `rescue_beam` hypotheses; None: never
    keep_attention  put the attention into the result
    """

    watch: tuple[Watch, ...] = ()
    least: int = 0
    silence: int = 0
    short: int = 0
    must_speak: bool = False
    real_end: bool = True
    no_speech: float = 1.0
    loop_guard: bool = True
    same_token: int = 0
    max_tokens: int = 224
    context_tokens: int = 223
    static_prompt: bool = True
    times: WordTimes = "dtw"
    heads_first: bool = False
    detect_end: bool = False
    retry: Halt | None = None
    again: tuple[Watch, ...] | None = None
    believes_jumps: bool = False
    unheard_from: int | None = None
    unbounded: tuple[Watch, ...] = ()
    rescue: float | None = None
    rescue_beam: int = 5
    keep_attention: bool = False


@dataclass(frozen=True, slots=True)
class HeardWords:
    """The result of one pass over a window.

    words       after the forced prefix, in order
    firm        how many of them the guards let stand; the others are a guess
    halt        what ended the decode, if a guard of the attention did
    last_frame  what the last token attended to, in frames from the window's start; None if nobody looked
    frames      frames with real audio
    word_ended  whether the last firm word is known to have ended (True) or to go on (False)
    ending      the last word and the marks after it, parted (`token_words.part_marks`); None where it has none
    retried     whether the window was decoded once more, padded to 30 s
    stop        what ended the text
    avg_logprob, no_speech_prob   Whisper's confidence in it
    attention   [heads, queries, frames], if it was asked for
    """

    words: tuple[TokenWord, ...] = ()
    firm: int = 0
    halt: Halt | None = None
    last_frame: int | None = None
    frames: int = 0
    word_ended: bool | None = None
    ending: tuple[TokenWord, TokenWord] | None = None
    retried: bool = False
    stop: StopReason = "end_of_text"
    avg_logprob: float = field(default=0.0, compare=False)
    no_speech_prob: float = field(default=0.0, compare=False)
    # An array compared with another gives an array, which has no single truth value.
    attention: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def rewound(self) -> bool:
        """True if the decode had lost its place, so that nothing of it stands."""
        return self.halt is not None and self.halt.reason == "rewind"

    @property
    def loops(self) -> bool:
        """True if the guard against repetition ended the text: no guard of the attention did."""
        return self.stop == "guard" and self.halt is None

    def stops_short(self, no_speech: float) -> bool:
        """True if a guard or the limit has ended the text before the audio does; the frontier alone is no such end, and
        of silence, with a higher probability than `no_speech`, nothing is unheard.
        """
        if self.no_speech_prob > no_speech:
            return False
        if self.halt is None:
            return self.stop != "end_of_text"
        return self.halt.reason != "frontier"

    @property
    def tokens(self) -> tuple[int, ...]:
        """Those of all words."""
        return tokens_of(self.words)


@dataclass(slots=True)
class RoundJob:
    """A round: what it is given, and what it has cost so far.

    `silence` is how many frames of it end the window, `hushed` whether a hush word follows them.
    """

    resources: RoundResources
    plan: RoundPlan
    listen: DecodeSettings
    options: DecodeOptions
    guards: Sequence[Guard]
    silence: int = 0
    hushed: bool = False
    costs: list[Cost] = field(default_factory=list)
