"""NPUsper's tables of its guard: how often a decode without padding makes words up, and what the guard does about it.

Every clip is decoded once without a guard, on its own; a guard that only cuts gives the same text as if it had watched
the decode, so each variant is played over what the decode left behind.

Labelling rule. Texts are aligned with what was said by the least number of errors (`wer.align`). A clip *hallucinates*
if at least three of its words are insertions. A *shift* is a clip in which the guard stops the decode. Such a stop is
*undesired* if a word that is right without the guard is missing with it. Rates are shares of clips.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from whispertide.decoding.alignment import alignment_heads
from whispertide.decoding.backward_shift import BackwardShift
from whispertide.decoding.watch import Scene
from whispertide.lab.evaluation import report
from whispertide.lab.evaluation.clips import ABOUT, Clip
from whispertide.lab.evaluation.page import Table
from whispertide.lab.evaluation.paper import Outcome
from whispertide.lab.evaluation.store import Json
from whispertide.lab.evaluation.wer import Counts, align
from whispertide.lab.from_json import built
from whispertide.options import DecodeOptions
from whispertide.streaming.attended_decode import HeardWords
from whispertide.streaming.framing import BARE, PAD30, Buckets, Framing
from whispertide.streaming.round import Equipment, RoundPlan
from whispertide.streaming.single_pass import SinglePass
from whispertide.streaming.stages import SerialExecutor
from whispertide.types import FloatArray, Span

if TYPE_CHECKING:
    from whispertide.lab.evaluation.runner import Runner
    from whispertide.model.whisper import WhisperModel

CLIPS, QUICK_CLIPS = 250, 10
INVENTED = 3  # inserted words that make a hallucination
MEDIANS, AVERAGES = (1, 3, 5, 7, 9, 11), (1, 5, 10, 15, 20)
USUAL = BackwardShift()

Variant = tuple[str, Framing, BackwardShift | None]

_COMPONENTS: tuple[Variant, ...] = (
    ("30 s, no guard", PAD30, None),
    ("no padding, no guard", BARE, None),
    ("bucket, no guard", Buckets(), None),
    ("bucket, encoder masked too, no guard", Buckets(masked=True), None),
    ("no padding, guard without filters", BARE, replace(USUAL, median=1, average=1)),
    ("no padding, guard with median", BARE, replace(USUAL, average=1)),
    ("no padding, guard with average", BARE, replace(USUAL, median=1)),
    ("no padding, guard", BARE, USUAL),
    ("no padding, guard as in the published code", BARE, replace(USUAL, row="fed", search_from=15)),
)
_FILTERS: tuple[Variant, ...] = tuple(
    (f"{median}, {average}", BARE, replace(USUAL, median=median, average=average))
    for median in MEDIANS
    for average in AVERAGES
)


@dataclass(frozen=True, slots=True)
class Label:
    """What one variant made of one clip."""

    counts: Counts
    hallucinated: bool
    shifted: bool
    undesired: bool


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A decode without guard: its tokens, and the attention [heads, queries, frames] that guards are played over."""

    tokens: tuple[int, ...]
    attention: FloatArray | None
    scene: Scene


def guard_table(runner: "Runner") -> Outcome:
    """NPUsper, table 2: what each component does."""
    return _table(runner, _COMPONENTS, "variant", "guard")


def filter_table(runner: "Runner") -> Outcome:
    """NPUsper, table 3: widths of the two filters."""
    return _table(runner, _FILTERS, "median, average (frames)", "filters")


def _table(runner: "Runner", variants: Sequence[Variant], heading: str, name: str) -> Outcome:
    labels = _label_all(runner, variants, name)
    rows = []
    for (name, _, rule), found in zip(variants, labels, strict=True):
        counts = sum((label.counts for label in found), Counts())
        shifted, undesired = (
            ("–", "–")
            if rule is None
            else (_share(label.shifted for label in found), _share(label.undesired for label in found))
        )
        wer = report.percent(counts.rate) if counts.rate is not None else "–"
        rows.append((name, _share(label.hallucinated for label in found), shifted, undesired, wer))
    columns = (heading, "hallucinating %", "backward shifts %", "undesired stops %", "WER %")
    return Outcome(tables=(Table(columns, tuple(rows)),), note=_about(runner, len(labels[0])))


def _about(runner: "Runner", count: int) -> str:
    return (
        f"{ABOUT}, {count} of {runner.corpus.name}, each decoded by itself by "
        f"{runner.models[0]}, greedy, with its real end of text. A clip hallucinates if {INVENTED} or more of its "
        "words are insertions. A stop is undesired if it loses a word that is right without it. The WER is over all "
        "clips, untruncated."
    )


def _share(flags: Iterable[bool]) -> str:
    values = list(flags)
    return report.percent(sum(values) / len(values))


def _label_all(runner: "Runner", variants: Sequence[Variant], name: str) -> list[list[Label]]:
    """One list per variant, one label per clip."""
    model = runner.transcriber(runner.models[0]).model

    def judge(clip: Clip) -> Json:
        decoded = {frame: _decode(model, frame, clip) for frame in dict.fromkeys(frame for _, frame, _ in variants)}
        return {"labels": [asdict(label(model, clip, decoded[frame], rule)) for _, frame, rule in variants]}

    found = runner.each_clip(name, judge, usual=CLIPS, quick=QUICK_CLIPS, made_by=Path(__file__).name)
    return [[built(Label, clip["labels"][place]) for clip in found] for place in range(len(variants))]


def _decode(model: "WhisperModel", frame: Framing, clip: Clip) -> Unguarded:
    watch = replace(USUAL, detect=False)
    hearing = SinglePass(watch=(watch,), loop_guard=False, context_tokens=0, keep_attention=True)
    plan = RoundPlan(0, Span(0, len(clip.samples)), hearing, is_last=True)
    equipment = Equipment(model, frame)
    heard = (
        SerialExecutor(equipment).run(plan, clip.samples, DecodeOptions(language=clip.language)).heard or HeardWords()
    )
    heads = tuple(sorted({*alignment_heads(model), *watch.heads(model)}))
    opening = len(model.tokenizer.sot_sequence(clip.language, timestamps=False))
    scene = Scene(equipment.kinds(clip.language), heads, opening, (), heard.frames)
    return Unguarded(heard.tokens, heard.attention, scene)


def label(model: "WhisperModel", clip: Clip, decode: Unguarded, rule: BackwardShift | None) -> Label:
    """Play a guard over a decode and judge what is left of it."""
    keep = None if rule is None else stop_of(model, decode, rule)
    heard = align(clip.words, model.tokenizer.decode(decode.tokens[:keep]).split(), clip.language)
    counts = heard.words
    undesired = False
    if keep is not None:
        without = align(clip.words, model.tokenizer.decode(decode.tokens).split(), clip.language)
        undesired = bool(without.matched_words().keys() - heard.matched_words().keys())
    return Label(counts, counts.insertions >= INVENTED, keep is not None, undesired)


def stop_of(model: "WhisperModel", decode: Unguarded, rule: BackwardShift) -> int | None:
    """How many tokens a guard leaves; None if it does not stop the decode."""
    if decode.attention is None:
        return None
    guard = rule.guard(decode.scene, model)
    for count in range(1, len(decode.tokens) + 1):
        seen = decode.attention[:, : decode.scene.opening + count - 1]
        keep = guard.check(decode.tokens[:count], seen)
        if keep is not None:
            return keep
    return None
