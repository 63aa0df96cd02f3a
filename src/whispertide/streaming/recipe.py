"""What a recipe is: the choices of schedule, framing, search, policy and executor, flat, so that an ablation is a
change of one field. What a field means is said once, in `Recipe`; a field that belongs to another policy is ignored.

This module checks recipes and reads changes to them as they are typed. It knows none of the published ones and builds
nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from dataclasses import replace as replace_fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from whispertide.decoding.backward_shift import ShiftRow
from whispertide.decoding.reference import Align
from whispertide.decoding.token_words import WordTimes
from whispertide.errors import OptionError
from whispertide.streaming.align_att import Memory, Truncate
from whispertide.streaming.framing import LONGEST_HUSH_S, SHORTEST_HUSH_S
from whispertide.streaming.local_agreement import Boundary, Compare, Trim
from whispertide.types import CHUNK_SECONDS


def _check_type(name: str, kind: Any, value: Any) -> None:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise OptionError(f"expected {name} to be one of {', '.join(get_args(kind))}; got {value!r}")
        return
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise OptionError(f"expected {name} to be of type {kind.__name__}; got {value!r}")


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise OptionError(f"expected {name} between {least:g} and {most:g}; got {value}")


_WITHIN_A_WINDOW = (
    *("margin_s", "margin_last_s", "rewind_s", "backward_s", "hold_s", "settle_s", "shed_s"),
    *("carry_back_s", "shift_from_s", "least_s", "silence_s"),
)
# What each policy calls the length of a usual window, which must fit into the longest.
WINDOW_OF = {"local-agreement": "trim_s", "align-att": "window_s", "grounded": "carry_most_s"}
_ANY_LENGTH = ("bare", "hush", "auto")  # framings whose windows may have any number of frames
FOLLOWING = ("pruned", "verified")  # searches that start from what the round before heard


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a stream is turned into rounds and rounds into words. Times in seconds, because a person sets them.

    schedule      "fixed": a round when `step_s` seconds have arrived; "best-effort": when the previous one is done and
                  `step_s` seconds have arrived; "adaptive": likewise, and when computing takes longer than half of
                  that, so much later that it does not (at most `longest_step_s`). All take all that has arrived.
    framing       "pad30": every window is padded to 30 s; "bare": as long as it is; "buckets": padded to 3, 4, 5, 6 or
                  30 s, hidden from the decoder; "buckets-masked": hidden from the encoder, too; "hush": as long as it
                  is, with a hush word of `hush_s` seconds behind it, which the model then must have (WhisperFlow);
                  "auto": bare for a checkpoint that has heard short windows, else padded to 30 s where this machine
                  is quick enough, else bare with `shift_guard` (`short_windows`)
    search        "beam" (of `beam` hypotheses), "greedy", or "unrolled": greedy in static graphs of several steps each
                  (docs/npu.md); not for local agreement, nor for windows of any length ("bare", "hush", "auto").
                  For local agreement alone: "pruned": one hypothesis as long as it says what the round before heard,
                  else `beam`; "verified": likewise, and what the round before heard is checked as one block (with
                  `beam` 1 it finds what "greedy" finds)
    policy        "local-agreement": `agreement` rounds must hear a word; "align-att": its attention must keep away from
                  the frontier (SimulStreaming); "grounded": attention must not shift backward (NPUsper)

    Local agreement:
    compare       "normalised": without case and punctuation; "exact": as written
    boundary      how words heard again are recognised: "align" or, as in whisper_streaming, by "time"
    trim          windows longer than `trim_s` are cut at a confirmed "segment" or "sentence" end
    prune_align   how a pruned or verified search finds its place in what was heard: by two equal pieces in a row
                  ("bigram"), by the equal piece nearest in "time", or by the "first" equal one (WhisperFlow)
    prune_recover   a search that has left what was heard gets narrow again once it is back (WhisperFlow: never)
    reread        where a round's text is one segment without an end, what is behind its last word is decoded as a
                  window of its own, as in whisper_streaming; else, if it is no more than 2 s, the next round hears it
    prompt_chars  how much confirmed text precedes the window as prompt (0 = none)

    AlignAtt:
    margin_s      attention must keep so far from the end; `margin_last_s` in the last round. Grounded: a word this
                  close to the end ends the decode (0 = none does)
    rewind_s      a jump back of the attention that voids a round (0 = none)
    backward_s    a word that attends so far behind the one before it ends the decode (0 = none does); in the last
                  round the window is then heard once more, padded to 30 s, or bare where it was padded
    attention_floor  keeps frames that nobody attends to from counting: a share of the strongest attention, by which the
                  spread that attention is standardised by is taken to be larger (0 = as published)
    truncate      what is held back of the last word: "none", "last-word", "near-end" (if it attends to the last
                  `hold_s`), "detector" (unless the word-truncation detector, which the model then must have, fires)
    memory        "segments": the oldest rounds' audio goes when the window is full; "words": windows of about
                  `window_s`, begun `carry` confirmed words before what is new
    context_tokens   how much text before the window precedes it (0 = none, not even the user's prompt)
    static_prompt    the user's prompt stays in front of it; else it scrolls away with what is said
    must_speak    every round says at least one token
    beyond        tokens that are decoded behind the frontier, as a guess
    verify        check the guess of the round before as one block
    rescue_logprob   a decode whose tokens are less likely on average is tried again with `beam` hypotheses (0 = never)
    shed_s        when computing keeps rounds further apart than this there is no guess, at twice that windows get
                  short (0 = never)

    Grounded:
    carry         how audio is carried over: 1, 2 or 3
    carry_back_s  the window begins so much before the carried word; `carry_most_s` is the most that is carried (0 =
                  twice the step)
    real_end      end of text ends a decode; else the second-best token is taken, if it says something
    finish_word   a word near the end is decoded whole before the decode ends
    same_token    so many copies of a token in a row end a decode and are dropped (0 = none do)

    Local agreement and AlignAtt:
    doubt         a word that is less probable is not confirmed as long as it lies in the last `settle_s` of the window
                  (0 = none is doubted)

    AlignAtt and grounded:
    shift_guard   whether backward shifts end a decode; AlignAtt then hears the window once more, padded to 30 s, or
                  bare where it was padded. `shift_median` and `shift_average` are the widths of the two filters in
                  frames, `shift_row` says whose attention a token's is, `shift_from_s` where arrival is looked for
    least_s       shorter windows are not decoded, unless they are the last
    silence_s     silence behind the last window of an utterance, so that its text may end
    max_tokens    the most that a round decodes
    word_times    "dtw", or "attended": where the attention of the first and last token is strongest
    heads_first   heads are averaged before word times are worked out

    All:
    hard_cap_s    windows never get longer; then words are confirmed whether they are certain or not
    no_speech     what is heard with a higher no-speech probability is dropped
    loop_guard    cut down repetition loops before they can be confirmed, and in the guess that is shown
    vad           whether a voice gate keeps silence out; `vad_pause_s` of it ends an utterance, `vad_pre_roll_s` before
                  the first speech is kept
    executor      "serial": one round after the other; "pipelined": a round is encoded while the one before it is
                  decoded, each by a worker of its own, for local agreement only (WhisperFlow); "auto": whatever
                  `whispertide profile` found best on this machine
    lag_s         more audio than this behind the last round is reported as lag
    """

    name: str
    schedule: Literal["fixed", "best-effort", "adaptive"] = "fixed"
    step_s: float = 1.0
    longest_step_s: float = 2.0
    framing: Literal["pad30", "bare", "buckets", "buckets-masked", "hush", "auto"] = "pad30"
    hush_s: float = 0.5
    search: Literal["greedy", "beam", "unrolled", "pruned", "verified"] = "beam"
    beam: int = 5
    policy: Literal["local-agreement", "align-att", "grounded"] = "local-agreement"
    agreement: int = 2
    compare: Compare = "normalised"
    boundary: Boundary = "align"
    trim: Trim = "segment"
    trim_s: float = 15.0
    prune_align: Align = "bigram"
    prune_recover: bool = True
    reread: bool = True
    prompt_chars: int = 200
    margin_s: float = 0.5
    margin_last_s: float = 0.08
    rewind_s: float = 4.0
    backward_s: float = 0.0
    attention_floor: float = 0.0
    truncate: Truncate = "last-word"
    hold_s: float = 0.5
    memory: Memory = "segments"
    window_s: float = 5.0
    carry: int = 2
    context_tokens: int = 223
    static_prompt: bool = True
    must_speak: bool = False
    beyond: int = 0
    verify: bool = False
    rescue_logprob: float = 0.0
    shed_s: float = 0.0
    carry_back_s: float = 0.2
    carry_most_s: float = 0.0
    real_end: bool = True
    shift_guard: bool = False
    shift_median: int = 7
    shift_average: int = 10
    shift_row: ShiftRow = "predicting"
    shift_from_s: float = 0.0
    finish_word: bool = False
    same_token: int = 0
    doubt: float = 0.0
    settle_s: float = 1.0
    least_s: float = 0.0
    silence_s: float = 0.0
    max_tokens: int = 224
    word_times: WordTimes = "dtw"
    heads_first: bool = False
    hard_cap_s: float = 28.0
    no_speech: float = 0.9
    loop_guard: bool = True
    vad: bool = True
    vad_pause_s: float = 0.5
    vad_pre_roll_s: float = 1.0
    executor: Literal["serial", "pipelined", "auto"] = "serial"
    lag_s: float = 5.0

    def __post_init__(self) -> None:
        for name, kind in field_types().items():
            _check_type(name, kind, getattr(self, name))
        _check_range("step_s", self.step_s, 0.02, CHUNK_SECONDS)
        _check_range("beam", self.beam, 1, 64)
        _check_range("hush_s", self.hush_s, SHORTEST_HUSH_S, LONGEST_HUSH_S)
        if self.search == "unrolled" and (self.policy == "local-agreement" or self.framing in _ANY_LENGTH):
            raise OptionError(
                "expected policy=align-att or grounded, and framing=buckets, buckets-masked or pad30, with "
                f"search=unrolled; got policy={self.policy}, framing={self.framing}. Unrolled graphs have fixed lengths"
            )
        if self.executor == "pipelined" and self.policy != "local-agreement":
            raise OptionError(
                f"expected policy=local-agreement with executor=pipelined; got policy={self.policy}. It begins a round "
                "with the words that the last one confirmed, so rounds cannot overlap. Use executor=serial or auto"
            )
        if self.search in FOLLOWING and self.policy != "local-agreement":
            raise OptionError(
                f"expected policy=local-agreement with search={self.search}; got policy={self.policy}. The search "
                "follows what the last round heard in the same audio"
            )
        if self.schedule == "adaptive":
            _check_range("longest_step_s", self.longest_step_s, self.step_s, CHUNK_SECONDS)
        _check_range("agreement", self.agreement, 2, 10)
        _check_range("hard_cap_s", self.hard_cap_s, 4, CHUNK_SECONDS)
        window = WINDOW_OF[self.policy]
        if self.policy != "grounded" or self.carry_most_s:
            _check_range(window, getattr(self, window), 1, self.hard_cap_s)
        for name in _WITHIN_A_WINDOW:
            _check_range(name, getattr(self, name), 0, CHUNK_SECONDS)
        _check_range("attention_floor", self.attention_floor, 0, 1)
        _check_range("doubt", self.doubt, 0, 1)
        _check_range("carry", self.carry, 1, 3 if self.policy == "grounded" else 20)
        _check_range("context_tokens", self.context_tokens, 0, 400)
        _check_range("beyond", self.beyond, 0, 224)
        _check_range("max_tokens", self.max_tokens, 1, 400)
        _check_range("same_token", self.same_token, 0, 100)
        _check_range("shift_median", self.shift_median, 1, 101)
        _check_range("shift_average", self.shift_average, 1, 100)
        if self.shift_median % 2 == 0:
            raise OptionError(f"expected shift_median to be odd; got {self.shift_median}")
        _check_range("rescue_logprob", self.rescue_logprob, -20, 0)
        _check_range("no_speech", self.no_speech, 0, 1)
        _check_range("prompt_chars", self.prompt_chars, 0, 2000)
        _check_range("vad_pause_s", self.vad_pause_s, 0.1, CHUNK_SECONDS)
        _check_range("vad_pre_roll_s", self.vad_pre_roll_s, 0, CHUNK_SECONDS)
        _check_range("lag_s", self.lag_s, 0.1, 3600)

    @property
    def carried_s(self) -> float:
        """The most that NPUsper carries over: `carry_most_s`, or else twice the step, at most half of the window."""
        return self.carry_most_s or min(2 * self.step_s, self.hard_cap_s / 2)

    @property
    def hypotheses(self) -> int:
        """How many hypotheses the search keeps at most."""
        return 1 if self.search in ("greedy", "unrolled") else self.beam

    def replace(self, **changes: Any) -> "Recipe":
        """The recipe with some fields changed. Raises `OptionError` for an unknown field or an impossible value."""
        if unknown := changes.keys() - field_types().keys():
            raise _unknown_field(min(unknown))
        return replace_fields(self, **changes)


def field_types() -> Mapping[str, Any]:
    """Name -> type of every field of a recipe, in order."""
    return _FIELD_TYPES


_hints = get_type_hints(Recipe)
_FIELD_TYPES: Mapping[str, Any] = MappingProxyType({item.name: _hints[item.name] for item in fields(Recipe)})


def parse_overrides(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """`recipe` with `settings` such as "step_s=0.5" applied in order.

    Raises `OptionError` if one is not of the form FIELD=VALUE, names no field, or has a value that does not fit.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise OptionError(f"expected FIELD=VALUE, for example step_s=0.5; got {setting!r}")
        if name not in field_types():
            raise _unknown_field(name)
        changes[name] = _parse(name, field_types()[name], text.strip())
    return recipe.replace(**changes)


def _unknown_field(name: str) -> OptionError:
    """Names the fields that are spelt like it, or all of them where none is."""
    names = [known for known in field_types() if known != "name"]
    near = get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(names)}"
    return OptionError(f"expected a field of a recipe; got {name!r}; {hint}")


_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _parse(name: str, kind: Any, text: str) -> Any:
    """`text` as a value of the field's type; a text that is none is an `OptionError`."""
    if kind is bool:
        if text.lower() not in _SWITCH:
            raise OptionError(f"expected {name} to be true or false; got {text!r}")
        return _SWITCH[text.lower()]
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
            raise OptionError(f"expected {name} to be {expected}; got {text!r}") from None
    return text
