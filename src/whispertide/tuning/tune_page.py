"""The report of a tuning: a table for the terminal, and a page with a plot. Measures nothing."""

import math

from whispertide.tuning import page
from whispertide.tuning.drawing import Curve, Drawing, scatter
from whispertide.tuning.framing_choice import MOST, SPEECH_S
from whispertide.tuning.tune import Tuning

LEGEND = (
    "The text of windows in each framing, compared with the text of the same windows padded to 30 s. changed: words of "
    "the padded text that are different or missing. invented: words that no padded text has. runs away: texts that do "
    "not end. ends missing: utterances without their last word. decoded twice: windows that a guard stopped, decoded "
    "once more with 30 s of padding. single words: additional words for each single word. near the end: additional "
    "words where the audio is cut off, which tide usually drops; they decide between framings within the limits. "
    f"Limits: {MOST['changed']:.0%} changed, {MOST['invented']:.0%} invented, {MOST['alone_added']:g} words added to a "
    f"single one, {MOST['ends_missing']:.0%} of ends missing, and no text that runs away."
)


def _table(found: Tuning) -> page.Table:
    """Make a row for each framing; the chosen one is marked."""
    rows = []
    for each in found.tried:
        rates = each.rates()
        names = ("changed", "invented", "run_aways", "ends_missing")
        rows.append(
            (
                f"{'* ' if each is found.chosen else ''}{each.label}",
                "yes" if each.suits else "no",
                f"{each.median_s * 1000:.0f}",
                *(f"{rates[name]:.1%}" for name in names),
                f"{each.twice / max(1, each.windows):.0%}",
                f"{rates['alone_added']:.2f}",
                f"{each.loose / max(1, each.words):.1%}",
            )
        )
    return page.Table(
        (
            "framing", "suits", "ms a window", "changed", "invented", "runs away", "ends missing", "decoded twice",
            "single words", "near the end",
        ),
        tuple(rows),
        f"{found.model}: {found.tried[0].windows} windows of {found.heard_s:.0f} s of audio (* is used from now on)",
    )  # fmt: skip


def _threads_table(found: Tuning) -> page.Table:
    """Make a row for each number of threads."""
    threads, step_s = (0, 0.0) if found.pace is None else (found.pace.threads, found.pace.step_s)
    rows = tuple(
        (f"{'* ' if each.threads == threads else ''}{each.threads}", f"{each.quickest_s * 1000:.0f}")
        for each in found.rounds
    )
    title = "threads" + (f"; a step of {step_s:g} s leaves room" if found.pace else ", not used: the machine was busy")
    return page.Table(("threads", "ms a round"), rows, title)


def _rule(found: Tuning) -> list[str]:
    """The lines about the rule for confirming words; the short form does not fit one."""
    if found.short:
        return []
    if found.refit is not None:
        return [found.refit.sentence]
    why = "too few words were heard, or all of them stayed"
    if found.speech_s < SPEECH_S:
        there_were = math.floor(found.speech_s / 6) / 10  # not rounded to what is needed
        why = f"that needs {SPEECH_S / 60:g} minutes of speech, and there were {there_were}"
    elif found.pace is None:
        why = "the machine was busy"
    return [f"the rule for confirming words was not fitted again: {why}"]


def text(found: Tuning) -> str:
    """Render for a terminal."""
    parts = [page.text_table(_table(found)), LEGEND] if found.tried[0].windows else []
    parts += _rule(found)
    if found.rounds:
        parts.append(page.text_table(_threads_table(found)))
    return "\n\n".join(parts)


def _plot(found: Tuning) -> Drawing:
    """Plot the differences against the time; down and to the left is better."""
    points = [
        Curve(each.label, (1000 * each.median_s,), (100 * each.differing,), ("suits" if each.suits else "",))
        for each in found.tried
    ]
    return scatter(
        points,
        x_label="a window (ms)",
        y_label="words that differ (%)",
        title=f"which framing suits {found.model}",
    )


def html(found: Tuning) -> str:
    """Render the page."""
    sections = [
        page.section(
            "Framings",
            page.html_table(_table(found)),
            page.paragraph(LEGEND, "note"),
            page.figure(_plot(found), "Time against difference", "Down and to the left is better."),
        )
    ]
    sections += [page.section("Which words stay", page.paragraph(f"{each}.")) for each in _rule(found)]
    if found.rounds:
        sections.append(page.section("Threads", page.html_table(_threads_table(found))))
    return page.page(f"{found.model} on this machine", f"{found.sentence}: {found.why}.", *sections)
