"""A model card as Markdown: what a model is for, how it was made, and everything that was measured of it.

Knows the values of a card alone; computes intervals and paired differences from its counts, but measures nothing.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from whispertide.tuning.page import Table
from whispertide_lab.evaluation import bootstrap
from whispertide_lab.evaluation.bootstrap import MANY, Ratio
from whispertide_lab.evaluation.card.compare import CER, INVENTED, WER, changes, verdict
from whispertide_lab.evaluation.card.results import Card, Result, paired, pooled
from whispertide_lab.evaluation.card.sets import PADDED, PADDED_TIMES, UNPADDED, UNPADDED_TIMES
from whispertide_lab.evaluation.compare import Measure
from whispertide_lab.evaluation.markdown import markdown_table
from whispertide_lab.evaluation.wer import Counts

USABLE_WER = 0.2  # above this on human speech, nobody would want a transcript
_SOME = 5  # utterances; of fewer no interval is shown
# What training.json may say, in the order in which a card tells it; other keys follow as they are.
_TRAINING = {
    "recipe": "Recipe",
    "from": "Starts from",
    "hours": "Speech, hours (distinct)",
    "real_hours": "of it human speech, hours",
    "utterances": "Utterances (distinct)",
    "hours_heard": "Speech heard in training, hours",
    "updates": "Updates",
    "wall_hours": "Time, hours",
    "hardware": "Hardware",
    "voices": "Voices",
    "text": "Text",
    "augmentation": "Augmentation",
    "sources": "Sources",
}
_SAID_ELSEWHERE = frozenset({"purpose", "licence", "caution"})


def page(card: Card, previous: Card | None = None) -> str:
    """The whole card; with a previous one, next to its figures."""
    blocks = [
        f"# Model card: {card.model['name']}",
        _purpose(card),
        *_described(card),
        "## Accuracy",
        *_accuracy(card),
        "## Padded and unpadded",
        *_padding(card),
        "## Words invented without speech",
        *_silence(card),
        "## Word times",
        *_word_times(card),
    ]
    if previous is not None:
        blocks += [f"## Against the previous checkpoint ({previous.model['hash'][:12]})", *_against(card, previous)]
    # of other benchmarks, as Markdown, by whoever put it into the card
    blocks += [*card.about.get("besides", ()), "## How it was measured", *_method(card)]
    return "\n\n".join(block for block in blocks if block) + "\n"


# --- what it is -------------------------------------------------------------------------------------------------------


def _purpose(card: Card) -> str:
    """What the checkpoint says of itself, and what the figures on human speech allow."""
    said = str(card.training.get("purpose", ""))
    real = [result for result in card.results if result.kind == "real" and result.mode == PADDED_TIMES.name]
    rate = sum((one.total for one in real), Counts()).rate
    if rate is None:
        return f"{said} Human speech was not measured for this card.".strip()
    allowed = (
        "It is fit to try on human speech."
        if rate <= USABLE_WER
        else "It is not fit to transcribe human speech; it is for demonstrations, tests and measurements."
    )
    return f"{said} Its word error rate on human speech is {100 * rate:.0f} %. {allowed}".strip()


def _described(card: Card) -> Iterator[str]:
    model = card.model
    shape = model["dims"]
    rows = [
        (
            "Architecture",
            f"Whisper: {shape['n_audio_layer']}+{shape['n_text_layer']} layers, width {shape['n_audio_state']}, "
            f"{shape['n_text_head']} heads, {shape['n_mels']} mels, {shape['n_vocab']} tokens",
        ),
        ("Parameters", f"{model['parameters'] / 1e6:.1f} million"),
        ("Weights", f"{model['bytes'] / 1e6:.1f} MB, SHA-256 of weights and shape {model['hash'][:12]}"),
        ("Alignment heads (layer, head)", ", ".join(f"({layer}, {head})" for layer, head in model["alignment_heads"])),
        ("Licence", str(card.training.get("licence", "not stated in training.json"))),
    ]
    yield markdown_table(Table(("", "what"), tuple(rows)))
    yield "## How it was trained"
    if not card.training:
        yield "The checkpoint has no training.json; so nothing is known about its training."
        return
    known = [(title, card.training[key]) for key, title in _TRAINING.items() if key in card.training]
    others = [(key, value) for key, value in card.training.items() if key not in {*_TRAINING, *_SAID_ELSEWHERE}]
    yield "\n".join(f"- {title}: {_plain(value)}" for title, value in [*known, *others])


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_plain(item) for item in value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


# --- tables -----------------------------------------------------------------------------------------------------------


def _accuracy(card: Card) -> Iterator[str]:
    speech = [result for result in card.results if result.kind != "nonspeech" and "unpadded" not in result.mode]
    rows = []
    for result in speech:
        total = result.total
        rows.append(
            (
                result.part,
                "yes" if "timestamps" in result.mode else "no",
                f"{len(result.ids)}{'' if len(set(result.units)) >= MANY else ' !'}",
                str(total.reference),
                _with_interval(WER, result.by_unit(result.word_errors)),
                _with_interval(CER, result.by_unit(result.character_errors)),
                *(
                    _percent(total.per_unit(count))
                    for count in (total.substitutions, total.deletions, total.insertions)
                ),
            )
        )
    columns = (
        "set",
        "timestamps",
        "utterances",
        "words",
        "WER % (95 %)",
        "CER % (95 %)",
        "subst. %",
        "del. %",
        "ins. %",
    )
    yield "Windows padded to 30 s, as in Whisper's training."
    yield markdown_table(Table(columns, tuple(rows)))
    if any(len(set(result.units)) < MANY for result in speech):
        yield f"! fewer than {MANY} {_drawn(card)}: such an interval is too narrow."


def _padding(card: Card) -> Iterator[str]:
    """The disease that short windows give to a model trained on padded ones."""
    yield (
        "Whisper was trained on windows padded to 30 s; on bare windows such a model repeats itself and invents words. "
        "The table has the same utterances both ways. An utterance has run away if it has at least three words too "
        "many, and half as many as were spoken."
    )
    rows = []
    certain: list[str] = []
    for padded, bare in _both_ways(card):
        found = paired(padded, bare, WER.key)
        if found is None:
            continue
        name = _title(padded)
        difference = f"{100 * found.difference:+.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
        rates = [_percent(one.total.rate) for one in (padded, bare)]
        insertions = [_percent(one.total.per_unit(one.total.insertions)) for one in (padded, bare)]
        runaway = [_percent(sum(one.ran_away) / len(one.ids)) for one in (padded, bare)]
        rows.append((name, *rates, difference, *insertions, *runaway))
        if found.low > 0 and found.units >= MANY:
            certain.append(name)
    columns = (
        *("set", "WER % padded", "unpadded", "difference (95 %)"),
        *("ins. % padded", "unpadded", "run away % padded", "unpadded"),
    )
    yield markdown_table(Table(columns, tuple(rows)))
    sets = "; ".join(certain) or "none"
    yield f"Sets on which bare windows are worse (95 % interval above zero, at least {MANY} {_drawn(card)}): {sets}."


def _both_ways(card: Card) -> Iterator[tuple[Result, Result]]:
    """Every set with speech, padded and unpadded; first all synthetic ones and all real ones as one."""
    pairs = _pairs(card, ("synthetic", "real"))
    for kind in ("synthetic", "real"):
        for mode in (PADDED, PADDED_TIMES):
            some = [pair for pair in pairs if pair[0].kind == kind and pair[0].mode == mode.name]
            if len(some) > 1:
                padded, bare = (pooled(f"all {kind}", side) for side in zip(*some, strict=True))
                yield padded, bare
    yield from pairs


def _pairs(card: Card, kinds: Collection[str]) -> list[tuple[Result, Result]]:
    """Padded and unpadded results of the same set, without timestamps first."""
    return [
        (padded, bare)
        for padded_mode, bare_mode in ((PADDED, UNPADDED), (PADDED_TIMES, UNPADDED_TIMES))
        for part in card.parts
        if (padded := card.result(part, padded_mode)) is not None
        and (bare := card.result(part, bare_mode)) is not None
        and padded.kind in kinds
    ]


def _title(result: Result) -> str:
    return f"{result.part}, timestamps" if result.mode == PADDED_TIMES.name else result.part


def _silence(card: Card) -> Iterator[str]:
    rows = []
    for result in card.results:
        if result.kind != "nonspeech":
            continue
        total = result.total
        some = sum(counts[3] > 0 for counts in result.words)
        rows.append(
            (
                result.part,
                result.mode,
                f"{result.minutes:.1f}",
                str(total.insertions),
                _with_interval(INVENTED, result.by_unit(result.invented)),
                f"{some} of {len(result.ids)}",
            )
        )
    yield "Measured without a voice gate, with Whisper's own no-speech rule. Every word is invented."
    yield markdown_table(
        Table(("set", "mode", "minutes", "words", "per minute (95 %)", "windows with words"), tuple(rows))
    )
    found = [
        (padded, difference)
        for padded, bare in _pairs(card, ("nonspeech",))
        if (difference := paired(padded, bare, INVENTED.key)) is not None and difference.units >= _SOME
    ]
    if found:
        yield "Additional words per minute in unpadded windows (95 %):"
        yield "\n".join(
            f"- {_title(padded)}: {more.difference:+.1f} ({more.low:.1f} to {more.high:.1f})" for padded, more in found
        )


def _word_times(card: Card) -> Iterator[str]:
    rows = []
    for result in card.results:
        if times := result.word_times_ms():
            values = (times["words"], times["median"], times["p90"], times["start_median"], times["end_median"])
            rows.append((result.part, *(f"{value:.0f}" for value in values)))
    if not rows:
        yield "No word with exact times was recognised."
        return
    yield (
        "Word times by dynamic time warping over the alignment heads, compared with the synthesizers' own (or, for "
        "real recordings, hand labels): absolute errors in milliseconds, starts and ends together, of correctly "
        "recognised words."
    )
    yield markdown_table(Table(("set", "words", "median", "p90", "starts, median", "ends, median"), tuple(rows)))


def _against(card: Card, previous: Card) -> Iterator[str]:
    found = changes(card, previous)
    rows = []
    for change in found:
        measure, difference = change.measure, change.difference
        write = measure.written
        spread = f"{write(difference.difference)} ({measure.span(difference)})"
        sign = "better" if change.better else "worse" if change.worse else ""
        rows.append((change.part, measure.name, write(difference.a), write(difference.b), spread, sign))
    yield verdict(found).replace("\n", "\n\n")
    if rows:
        yield markdown_table(Table(("set", "figure", "previous", "this one", "difference (95 %)", ""), tuple(rows)))
        yield "Paired by utterance; padded windows without timestamps, word times and long recordings with them."


def _method(card: Card) -> Iterator[str]:
    about = card.about
    yield (
        "Greedy search at temperature 0, one decode per window, no text before it, no fallback. Errors are counted "
        f"after Whisper's English normaliser over whole texts; intervals are bootstraps over {_drawn(card)} (95 %). "
        "Texts are reserved from training by a rule over their text, held-out voices by their names. Voices and sounds "
        "named trained, held-out or no speech are synthetic (espeak-ng, flite, generated noise); sets named real are "
        "recordings, of people unless the name differs."
    )
    sources = dict.fromkeys((result.corpus, result.corpus_hash) for result in card.results)
    yield "\n".join(f"- {name}: {digest}" for name, digest in sources)
    quick = " A quick run, to test the measurement; it does not show how good the model is." if about["quick"] else ""
    yield (
        f"Precision {about['precision']}, seed {about['seed']}, {about['date']}, code {about['code']}.{quick} Made by "
        f"`{about['command']}`; every figure is in the JSON file next to this page."
    )


def _drawn(card: Card) -> str:
    """What the intervals are over."""
    known = any(result.speakers for result in card.results)
    return (
        "speakers (recordings where nobody speaks, utterances where nobody knows who, or of synthetic voices)"
        if known
        else "utterances"
    )


def _with_interval(measure: Measure, ratios: Sequence[Ratio]) -> str | None:
    total = sum(count for _, count in ratios)
    if not total:
        return None
    value = sum(errors for errors, _ in ratios) / total
    if len(ratios) < _SOME:
        return measure.written(value)
    low, high = bootstrap.interval(ratios)
    return f"{measure.written(value)} ({measure.written(low)} to {measure.written(high)})"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.1f}"
