"""NPUsper's tables of its guard: how often a decode without padding makes words up, and what the guard does about it.

Every clip is decoded once without a guard, on its own; a guard that only cuts gives the same text as if it had watched
the decode, so each variant is played over what the decode left.

Labelling rule. Texts are aligned with what was said by the least number of errors (`wer.align`). A clip *hallucinates*
if at least three of its words are insertions; the paper does not say its rule, so what other numbers would make of it
stands in a table of its own. A *shift* is a clip in which the guard stops the decode. Such a stop is *undesired* if a
word that is right without the guard is missing with it; one that loses nothing is *right* only where the clip
hallucinates without the guard, else it is *for nothing*. Hallucinations and shifts are shares of clips, undesired stops
are a share of the stops: only so do the paper's rows add up (9.9 % of 36.4 % of 250 clips are 9 of 91).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from whispertide.decoding.guards import Scene
from whispertide.errors import OptionError
from whispertide.methods.attention.backward_shift import BackwardShift
from whispertide.methods.attention.listening import HeardWords
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, PAD30, Framing
from whispertide.streaming.resources import RoundResources
from whispertide.streaming.round import RoundPlan
from whispertide.streaming.stages import SerialExecutor
from whispertide.tuning.drawing import Curve, scatter
from whispertide.tuning.page import Table
from whispertide.types import FloatArray, Span
from whispertide_lab.evaluation import plots, report
from whispertide_lab.evaluation.bootstrap import UNITS, Ratio, by_unit, interval, units_of
from whispertide_lab.evaluation.clips import ABOUT, Clip
from whispertide_lab.evaluation.paper import Outcome, Plot
from whispertide_lab.evaluation.store import Json
from whispertide_lab.evaluation.wer import Counts, align
from whispertide_lab.from_json import built

if TYPE_CHECKING:
    from whispertide.model.whisper import WhisperModel
    from whispertide_lab.evaluation.runner import Runner

CLIPS, QUICK_CLIPS = 250, 10
INVENTED = 3  # inserted words that make a hallucination
THRESHOLDS = (1, 2, INVENTED, 5, 8)  # and other rules
WIDTHS = ((1, 1), (5, 1), (10, 1), (15, 1), (10, 3), (10, 5), (10, 7))  # average and median of table 3; 1 is none
USUAL = BackwardShift()

Variant = tuple[str, Framing, BackwardShift | None]
Exact = tuple[float | None, float | None]  # precision and recall


@dataclass(frozen=True, slots=True)
class Published:
    """A row of the paper, in per cent: hallucinating clips, stops, and undesired ones among these."""

    hallucinating: float
    shifts: float | None = None
    undesired: float | None = None


# The variants of table 2, each with what the one before has. The paper's baseline compares every token.
_ALL = replace(USUAL, compared="all")
_COMPONENTS: tuple[Variant, ...] = (
    ("30 s, no guard", PAD30, None),
    ("no padding, no guard", BARE, None),
    ("+ backward shifts", BARE, replace(_ALL, median=1, average=1)),
    ("+ moving average", BARE, replace(_ALL, median=1)),
    ("+ median", BARE, _ALL),
    ("+ punctuation is skipped", BARE, replace(USUAL, compared="no-marks")),
    ("+ pieces of words are skipped", BARE, USUAL),
)
_OTHERS: tuple[Variant, ...] = (("the same as in the published code", BARE, replace(USUAL, row="fed", search_from=15)),)
_FILTERS: tuple[Variant, ...] = tuple(
    (
        f"{0 if average == 1 else average}, {0 if median == 1 else median}{', words only' if rule is USUAL else ''}",
        BARE,
        replace(rule, median=median, average=average),
    )
    for rule in (_ALL, USUAL)
    for average, median in WIDTHS
)
_PUBLISHED_SIZES: Mapping[str, Published] = MappingProxyType(
    {
        "small: no guard": Published(24.0),
        "small: guard, layer 5": Published(2.0, 5.2, 7.7),
        "small: guard, layer 7": Published(2.0, 3.2, 12.5),
        "medium: no guard": Published(36.4),
        "medium: guard, layer 8": Published(6.8, 28.8, 6.9),
    }
)
_PUBLISHED: Mapping[str, Published] = MappingProxyType(
    {
        "30 s, no guard": Published(0.0),
        "no padding, no guard": Published(34.4),
        "+ backward shifts": Published(4.4, 70.8, 75.7),
        "+ moving average": Published(2.8, 65.2, 82.2),
        "+ median": Published(1.2, 51.6, 67.4),
        "+ punctuation is skipped": Published(0.0, 39.6, 19.2),
        "+ pieces of words are skipped": Published(0.0, 36.4, 9.9),
        "0, 0": Published(4.4, 70.8, 75.7),
        "5, 0": Published(3.6, 62.0, 83.2),
        "10, 0": Published(2.8, 65.2, 82.2),
        "15, 0": Published(3.2, 67.6, 84.0),
        "10, 3": Published(2.4, 60.0, 74.7),
        "10, 5": Published(1.2, 59.2, 73.0),
        "10, 7": Published(1.2, 51.6, 67.4),
    }
)


@dataclass(frozen=True, slots=True)
class Label:
    """What one variant made of one clip. `inserted`: how many words are insertions without the guard; `source`: the
    clip's.
    """

    counts: Counts
    shifted: bool
    undesired: bool
    inserted: int
    source: str = ""

    def hallucinated(self, least: int = INVENTED) -> bool:
        """Whether it hallucinates, if so many insertions make it."""
        return self.counts.insertions >= least

    def invented(self, least: int = INVENTED) -> bool:
        """Whether it hallucinates without the guard."""
        return self.inserted >= least


@dataclass(frozen=True, slots=True)
class Unguarded:
    """A decode without guard: its tokens, the attention [heads, queries, frames] that guards are played over, and what
    the encoder took.
    """

    tokens: tuple[int, ...]
    attention: FloatArray | None
    scene: Scene
    encode_s: float = 0.0


def guard_table(runner: "Runner") -> Outcome:
    """NPUsper, table 2: what each component does."""
    return _table(runner, (*_COMPONENTS, *_OTHERS), "variant")


def filter_table(runner: "Runner") -> Outcome:
    """NPUsper, table 3: widths of the two filters, over all tokens as in the paper, and over words."""
    return _table(runner, _FILTERS, "average, median (frames)")


def outcome_figure(runner: "Runner") -> Outcome:
    """NPUsper, figure 10: what becomes of the clips under each variant of the guard, and its precision and recall."""
    guarded = [(name, frame, rule) for name, frame, rule in _COMPONENTS if rule is not None]
    labels = _labels(runner, guarded)
    shares = {name: outcomes(found) for (name, _, _), found in zip(guarded, labels, strict=True)}
    exact = {name: precision_and_recall(found) for (name, _, _), found in zip(guarded, labels, strict=True)}
    rows = [(name, *(report.percent(share) for share in (*shares[name].values(), *exact[name]))) for name in shares]
    parts = [(name, {fate: 100 * share for fate, share in of.items()}) for name, of in shares.items()]
    points = [
        Curve(name, (100 * recall,), (100 * precision,))
        for name, (precision, recall) in exact.items()
        if precision is not None and recall is not None
    ]
    fates, both = "What becomes of the clips", "Precision and recall of the guard"
    drawn = (
        Plot(plots.stacked(parts, x_label="clips (%)", title=fates.lower()), fates),
        Plot(scatter(points, x_label="recall (%)", y_label="precision (%)", title=both.lower(), zero=False), both),
    )
    note = (
        f"{_about(runner, len(labels[0]))} Of each clip one thing is said: the guard stopped a hallucination and lost "
        "nothing, it stopped a clip that has none and lost nothing, it stopped it and lost a word that was right, it "
        "let a hallucination pass, or it rightly let the clip pass. Precision is the share of the first among the "
        "stops, recall among the clips that hallucinate without the guard."
    )
    columns = ("variant", *(f"{name} %" for name in _FATES), "precision %", "recall %")
    by_rule = _by_threshold(
        [name for name, _, _ in guarded],
        [[_both(precision_and_recall(found, least)) for least in THRESHOLDS] for found in labels],
        "Precision and recall, if so many insertions make a hallucination",
    )
    return Outcome((Table(columns, tuple(rows)), by_rule), drawn, note)


def _both(exact: Exact) -> str:
    precision, recall = exact
    return f"{report.percent(precision)}, {report.percent(recall)}"


_STOPPED, _NEEDLESS, _UNDESIRED, _MISSED, _PASSED = _FATES = (
    *("stopped rightly", "stopped for nothing", "stopped wrongly"),
    *("missed", "left alone"),
)


def outcomes(labels: Sequence[Label]) -> dict[str, float]:
    """What became of the clips, as shares that add up to one."""
    counts = dict.fromkeys(_FATES, 0)
    for label in labels:
        stopped = _UNDESIRED if label.undesired else _STOPPED if label.invented() else _NEEDLESS
        passed = _MISSED if label.invented() else _PASSED
        counts[stopped if label.shifted else passed] += 1
    return {name: count / len(labels) for name, count in counts.items()}


def precision_and_recall(labels: Sequence[Label], least: int = INVENTED) -> Exact:
    """Of stops of a hallucination that lose nothing right: how many of the stops they are, and of the clips that need
    one. None where there is none of these.
    """
    stops = [label for label in labels if label.shifted]
    rightly = sum(label.invented(least) and not label.undesired for label in stops)
    return _ratio(rightly, len(stops)), _ratio(rightly, sum(label.invented(least) for label in labels))


def _table(runner: "Runner", variants: Sequence[Variant], heading: str) -> Outcome:
    labels = _labels(runner, variants)
    rows = [
        (name, *_row(found, rule), *_theirs(_PUBLISHED.get(name)))
        for (name, _, rule), found in zip(variants, labels, strict=True)
    ]
    headings = (heading, *_COLUMNS, *_ERRORS, *(f"paper: {column}" for column in _COLUMNS))
    return Outcome((Table(headings, tuple(rows)), _sensitivity(variants, labels)), note=_about(runner, len(labels[0])))


def _sensitivity(variants: Sequence[Variant], labels: Sequence[Sequence[Label]]) -> Table:
    """How many clips hallucinate, by how many insertions make it."""
    shares = [[_share(label.hallucinated(least) for label in found) for least in THRESHOLDS] for found in labels]
    return _by_threshold(
        [name for name, _, _ in variants], shares, "Hallucinating %, if so many insertions make a hallucination"
    )


def _by_threshold(names: Sequence[str], cells: Sequence[Sequence[str]], title: str) -> Table:
    rows = tuple((name, *row) for name, row in zip(names, cells, strict=True))
    return Table(("variant", *(f"{least} or more" for least in THRESHOLDS)), rows, title)


_COLUMNS = ("hallucinating %", "backward shifts %", "undesired % of them")
_ERRORS = ("WER %", "hallucinating, 95 % interval", "WER, 95 % interval")


def _row(found: Sequence[Label], rule: BackwardShift | None) -> tuple[str, ...]:
    """What one variant made of the clips: as `_COLUMNS` and `_ERRORS` say."""
    counts = sum((label.counts for label in found), Counts())
    stops = _stops(found) if rule is not None else ("–", "–")
    units = units_of([label.source for label in found])
    sure = (
        _interval(by_unit([(float(label.hallucinated()), 1.0) for label in found], units)),
        _interval(by_unit([(label.counts.errors, label.counts.reference) for label in found], units)),
    )
    return (_share(label.hallucinated() for label in found), *stops, report.percent(counts.rate), *sure)


def _interval(units: Sequence[Ratio]) -> str:
    try:
        return " to ".join(map(report.percent, interval(units)))
    except OptionError:  # nobody says a word in them
        return "–"


def _theirs(published: Published | None) -> tuple[str, ...]:
    return tuple(report.number(value, 1) for value in (astuple(published) if published else 3 * (None,)))


def size_table(runner: "Runner") -> Outcome:
    """NPUsper, table 4: the guard, set as for one model, with others, on each decoder layer. The paper's rows stand
    below ours.
    """
    rows = []
    for model in runner.models:
        variants = _by_layer(runner.transcriber(model).model.dims.n_text_layer)
        labels = _label_all(runner, variants, "sizes", model)
        for (name, _, rule), found in zip(variants, labels, strict=True):
            rows.append((f"{Path(model).name}: {name}", *_row(found, rule)))
    rows += [(f"the paper, {name}", *_theirs(row), *len(_ERRORS) * ("–",)) for name, row in _PUBLISHED_SIZES.items()]
    note = (
        f"{_about(runner, len(labels[0]), ', '.join(runner.models))} The guard is that of table 2's last row, on one "
        "decoder layer. "
        "`--models A,B` says which checkpoints are compared."
    )
    return Outcome((Table(("model", *_COLUMNS, *_ERRORS), tuple(rows)),), note=note)


def _by_layer(layers: int) -> tuple[Variant, ...]:
    guarded = ((f"no padding, guard, layer {n + 1} of {layers}", BARE, replace(USUAL, layer=n)) for n in range(layers))
    return (_COMPONENTS[0], _COMPONENTS[1], *guarded)


def _stops(labels: Sequence[Label]) -> tuple[str, str]:
    """The share of clips that the guard stops, and the share of these stops that lose a word."""
    stops = [label for label in labels if label.shifted]
    undesired = sum(label.undesired for label in stops)
    lost = f"{report.percent(undesired / len(stops))} ({undesired} of {len(stops)})" if stops else "–"
    return _share(label.shifted for label in labels), lost


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _about(runner: "Runner", count: int, models: str = "") -> str:
    return (
        f"{ABOUT}, {count} of {runner.corpus_name}, each decoded by itself by {models or runner.models[0]}, greedy, "
        f"with its real end of text. A clip hallucinates if {INVENTED} or more of its words are insertions. A stop is "
        f"undesired if it loses a word that is right without it. The WER is over all clips, untruncated. Intervals are "
        f"by a bootstrap over {UNITS}. The paper's "
        "rows are of 250 recordings of LibriSpeech, with Whisper base."
    )


def _share(flags: Iterable[bool]) -> str:
    values = list(flags)
    return report.percent(sum(values) / len(values))


def _labels(runner: "Runner", wanted: Sequence[Variant]) -> list[list[Label]]:
    """One list per variant. All tables and the figure are of the same decodes."""
    every = (*_COMPONENTS, *_OTHERS, *_FILTERS)
    found = _label_all(runner, every, "guard")
    by_name = {name: labels for (name, *_), labels in zip(every, found, strict=True)}
    return [by_name[name] for name, *_ in wanted]


def _label_all(
    runner: "Runner", variants: Sequence[Variant], name: str, model_name: str | None = None
) -> list[list[Label]]:
    """One list per variant, one label per clip; by the first model unless told otherwise."""
    model_name = model_name or runner.models[0]
    model = runner.transcriber(model_name).model
    layers = sorted({rule.layer for _, _, rule in variants if rule is not None and rule.layer is not None}) or (None,)

    def judge(clip: Clip) -> Json:
        frames = dict.fromkeys(frame for _, frame, _ in variants)
        decoded = {frame: decode_clip(model, frame, clip, layers) for frame in frames}
        return {"labels": [asdict(label(model, clip, decoded[frame], rule)) for _, frame, rule in variants]}

    found = runner.each_clip(name, judge, usual=CLIPS, quick=QUICK_CLIPS, made_by=(__name__,), model=model_name)
    return [[built(Label, clip["labels"][place]) for clip in found] for place in range(len(variants))]


def decode_clip(model: "WhisperModel", frame: Framing, clip: Clip, layers: Sequence[int | None] = (None,)) -> Unguarded:
    """Greedily, by itself, with its real end of text; the attention of these decoder layers is kept, None: the last."""
    watches = tuple(replace(USUAL, detect=False, layer=layer) for layer in layers)
    hearing = SinglePass(watch=watches, loop_guard=False, context_tokens=0, keep_attention=True)
    plan = RoundPlan(0, Span(0, len(clip.samples)), hearing, is_last=True)
    resources = RoundResources(model, frame)
    result = SerialExecutor(resources).run(plan, clip.samples, DecodeOptions(language=clip.language))
    heard = result.heard or HeardWords()
    heads = tuple(sorted({*model.alignment_heads, *(head for watch in watches for head in watch.heads(model))}))
    opening = len(model.tokenizer.sot_sequence(clip.language, timestamps=False))
    scene = Scene(resources.kinds(clip.language), heads, opening, (), heard.frames)
    stats = result.stats
    return Unguarded(heard.tokens, heard.attention, scene, stats.encode_s - stats.features_s)


def label(model: "WhisperModel", clip: Clip, decode: Unguarded, rule: BackwardShift | None) -> Label:
    """Play a guard over a decode and judge what is left of it."""
    keep = None if rule is None else stop_of(model, decode, rule)
    heard = align(clip.words, model.tokenizer.decode(decode.tokens[:keep]).split(), clip.language)
    without = heard
    if keep is not None:
        without = align(clip.words, model.tokenizer.decode(decode.tokens).split(), clip.language)
    lost = without.matched_words().keys() - heard.matched_words().keys()
    return Label(heard.words, keep is not None, bool(lost), without.words.insertions, clip.source)


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
