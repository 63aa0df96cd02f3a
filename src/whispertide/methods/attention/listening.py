"""One decode of a window: what is asked of it (`DecodeSettings`), what it gives (`HeardWords`), what of that counts.

`single_pass` is the decode itself. Two things in its words are not to be taken at their word.

Copies. A decoder that has lost its place begins anew, most often with the sentence that it has just written, and its
times betray nothing: they only ever go on, so that the copy is squeezed into whatever audio is left. Its attention
does: the words of a copy attend to where the same words attended the first time. Who speaks a sentence twice makes new
sound, and the second attends to that. Guards of attention (`decoding.guards`) see this while they decode, but must let
small jumps pass, which are common where windows are not padded. Here the text shows which jumps are copies. Ours.

A mark at the end. A decoder that sees no more words ends its text, and nearly always with a full stop: "concerned."
half a second before "differs from most". The word is certain and the mark is not. So the word is confirmed without it;
the next round, which hears the words after it, says whether there is one, and which. In the last round of an utterance
a likely mark stands. An unlikely one stands only if nobody speaks on before the turn ends, or what is said then does
not begin with a small letter: in a pause in mid-sentence, too, a decoder writes a full stop, but is no surer of it than
of another mark or of none. Ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from whispertide.decoding.guards import Halt, Watch
from whispertide.decoding.search import Cost, Guard, StopReason
from whispertide.decoding.token_words import TokenWord, WordTimes, tokens_of
from whispertide.options import DecodeOptions
from whispertide.punctuation import AFTER_WORDS
from whispertide.streaming import repetition
from whispertide.streaming.repetition import LOOP_LIKE, normalise, runs
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.types import SAMPLE_RATE, FloatArray

_LEAST_COPY = 2  # words of a copy: a single one may be said twice within the time that attention can tell apart
# So near to each other two words attend to the same sound; people say no two equal ones so fast.
_SAME_SOUND = SAMPLE_RATE // 5
_LOOP_STEP = SAMPLE_RATE // 8  # "no no no" comes up to eight times a second
# With tiny.en and its adapter marks in pauses after sentences have 0.64 to 0.99, those within clauses mostly less
# (lab/log). nano.en gives 0.48 to 1 after sentences.
_SURE_MARK = 0.6


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


# --- copies ---------------------------------------------------------------------------------------------------------


def without_copies(said: Sequence[TokenWord], heard: HeardWords) -> HeardWords:
    """The transcript without copies of the words before it or in itself."""
    kept = said_once(said, heard.words)
    return replace(heard, words=tuple(heard.words[at] for at in kept), firm=sum(at < heard.firm for at in kept))


def said_once(said: Sequence[TokenWord], words: Sequence[TokenWord]) -> list[int]:
    """The numbers of those of `words` that are no copies of what stands before them, be it in `said` or in `words`.

    A copy is a phrase most of whose words attend to where its first saying did, and with it, or by themselves where
    they differ, words in a row that each attend to where an equal one did. Without attention nothing is a copy.
    """
    everything = [*said, *words]
    keys = [normalise(word.word.text) for word in everything]
    kept: list[int] = []
    run: list[int] = []  # words in a row that may be a copy
    phrases: set[int] = set()  # words of copied phrases
    for at in range(len(said), len(everything)):
        if at not in phrases:
            copied = max((_copied(everything, keys, first, at) for first in range(at)), default=0)
            phrases.update(range(at, at + copied))
        # An echo: an equal word was found before in the same audio.
        if at in phrases or any(
            keys[before] == keys[at] and _same_audio(everything[before], everything[at]) for before in range(at)
        ):
            run.append(at)
            continue
        kept += [*_left(run, phrases, keys), at]
        run = []
    kept += _left(run, phrases, keys)
    return [at - len(said) for at in kept]


def without_loops(said: Sequence[TokenWord], words: Sequence[TokenWord]) -> list[TokenWord]:
    """`words` without the copies in loops that were not said: those that attend to no sound after the copy before them.

    How often a word is said tells nothing: ten times "seven" may be a telephone number. A loop stays in its place. The
    second copy stands, since attention is not that exact. Without attention copies are counted.
    """
    everything = [*said, *words]
    places = [word.attended for word in everything if word.attended is not None]
    if len(places) < len(everything):
        return repetition.without_loops([one.word for one in said], words)
    dropped: set[int] = set()
    for run in runs([normalise(word.word.text) for word in everything]):
        newest: dict[int, int] = {}  # by the place in the phrase
        for at in range(run.start, run.end if run.copies >= LOOP_LIKE else run.start):
            word = (at - run.start) % run.phrase
            if at - run.start >= 2 * run.phrase and places[at] - newest[word] < _LOOP_STEP:
                dropped.add(at)
            else:
                newest[word] = places[at]
    return [word for at, word in enumerate(words, start=len(said)) if at not in dropped]


def _left(run: list[int], phrases: set[int], keys: Sequence[str]) -> list[int]:
    """The rest of words in a row that may be a copy: none if they are, else all. "No, no" may be spoken so fast."""
    is_copy = not phrases.isdisjoint(run) or len({keys[at] for at in run}) >= _LEAST_COPY
    return [] if is_copy else run


def _copied(words: Sequence[TokenWord], keys: Sequence[str], first: int, second: int) -> int:
    """The number of words from `second` on that repeat those from `first` on, most of them in the same audio."""
    count = again = 0
    while second + count < len(keys) and first + count < second and keys[first + count] == keys[second + count]:
        again += _same_audio(words[first + count], words[second + count])
        count += 1
    return count if count >= _LEAST_COPY and 2 * again > count else 0


def _same_audio(one: TokenWord, other: TokenWord) -> bool:
    return one.attended is not None and other.attended is not None and abs(one.attended - other.attended) <= _SAME_SOUND


# --- a mark at the end ----------------------------------------------------------------------------------------------


def without_last_mark(heard: HeardWords, words: Sequence[TokenWord], firm: int) -> tuple[list[TokenWord], int]:
    """The `words` that were heard, of which the first `firm` are to be confirmed, so that no mark at their end is."""
    if not firm or firm < len(words):
        return list(words), firm
    parted = _with_marks_apart(heard, words)
    return parted, len(parted) - 1 if is_mark(parted[-1]) else firm


def unsure_mark(heard: HeardWords, words: Sequence[TokenWord]) -> tuple[list[TokenWord], TokenWord | None]:
    """The `words` of a last round, and what is apart from them: an unlikely mark at their end, if there is one."""
    parted = _with_marks_apart(heard, words)
    if not parted or not is_mark(parted[-1]) or parted[-1].word.probability >= _SURE_MARK:
        return list(words), None
    return parted[:-1], parted[-1]


def is_mark(word: TokenWord) -> bool:
    """True if there is nothing but marks that stand after a word."""
    return not word.word.text.strip().strip(AFTER_WORDS)


def _with_marks_apart(heard: HeardWords, words: Sequence[TokenWord]) -> list[TokenWord]:
    """The words, the marks after the last one as a word of their own."""
    # What was heard twice may have been left out meanwhile.
    if not words or not heard.ending or heard.ending[0].tokens + heard.ending[1].tokens != words[-1].tokens:
        return list(words)
    return [*words[:-1], *heard.ending]
