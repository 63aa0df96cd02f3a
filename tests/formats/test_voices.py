"""Voices in files: a segment, and a subtitle, has those of one; each format says whose."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from each_row import each_row
from whispertide.events import Confirmed
from whispertide.formats.document import Document, OtherText, TextSegment, other_text, segment_words
from whispertide.formats.files import document_events, render_json, render_jsonl, render_srt, render_txt, render_vtt
from whispertide.formats.subtitles import SUBTITLES, cues
from whispertide.options import SubtitleOptions
from whispertide.types import SAMPLE_RATE, Word

S = SAMPLE_RATE


def word(text: str, at_s: float, speaker: int | None) -> Word:
    return Word(text, round(at_s * S), round((at_s + 0.4) * S), 0.9, speaker)


TALK = Document(
    segment_words(
        [
            word(" Are", 0, 1),
            word(" you", 0.5, 1),
            word(" there,", 1, 1),
            word(" yes", 1.5, 2),
            word(" I", 2, 2),
            word(" am.", 2.5, 2),
            word(" <Good>.", 4.5, 2),
        ]
    ),
    duration=6 * S,
)


def test_a_segment_ends_where_the_voice_changes() -> None:
    assert [(segment.text, segment.speaker) for segment in TALK.segments] == [
        (" Are you there,", 1),
        (" yes I am.", 2),
        (" <Good>.", 2),
    ]


def test_a_word_that_is_written_without_a_space_stays_with_its_word() -> None:
    words = [word(" can", 0, 1), word("not", 0.5, 2), word(" go", 1, 2)]
    assert [segment.text for segment in segment_words(words)] == [" cannot", " go"]


def test_where_no_spaces_are_written_voices_are_parted_too() -> None:
    words = [word("你好", 0, 1), word("再见", 0.5, 2)]
    assert [segment.text for segment in segment_words(words)] == ["你好", "再见"]


def test_text() -> None:
    assert render_txt(TALK) == "Speaker 1: Are you there,\nSpeaker 2: yes I am.\nSpeaker 2: <Good>.\n"


def test_webvtt_has_its_own_tag() -> None:
    vtt = render_vtt(TALK)
    assert "<v Speaker 1>Are you there,\n" in vtt
    assert "<v Speaker 2>yes I am.\n" in vtt
    assert "<v Speaker 2>&lt;Good&gt;.\n" in vtt


def test_subrip_names_a_voice_where_it_begins() -> None:
    lines = [block.split("\n", 2)[2].strip() for block in render_srt(TALK).split("\n\n")]
    assert lines == ["Speaker 1: Are you there,", "Speaker 2: yes I am.", "<Good>."]


def test_json_has_numbers() -> None:
    data = json.loads(render_json(TALK))
    assert [segment["speaker"] for segment in data["segments"]] == [1, 2, 2]
    assert [each["speaker"] for each in data["words"]] == [1, 1, 1, 2, 2, 2, 2]
    events = [json.loads(line) for line in render_jsonl(TALK).splitlines()]
    assert events[0]["words"][0]["speaker"] == 1


def test_without_labels_nothing_is_said() -> None:
    plain = Document(segment_words([word(" Hello.", 0, None)]), duration=S)
    assert render_txt(plain) == "Hello.\n"
    assert "speaker" not in render_json(plain).lower() + render_vtt(plain).lower() + render_srt(plain).lower()


def test_translations_of_channels_have_their_speakers() -> None:
    others = (
        OtherText(0, 2 * S, "Oui.", "fr", 2),
        OtherText(S, 3 * S, "Bien.", "fr", 1),
        OtherText(0, S, "Yes.", None, 2),
    )
    translated = Document(others=others, duration=4 * S)
    assert render_txt(translated.other("fr")) == "Speaker 2: Oui.\nSpeaker 1: Bien.\n"
    vtt = render_vtt(translated.other("fr"))
    assert "<v Speaker 2>Oui.\n" in vtt
    assert "<v Speaker 1>Bien.\n" in vtt
    document = json.loads(render_json(translated))
    assert [one["speaker"] for one in document["translations"]] == [2, 1]
    assert [one["speaker"] for one in document["corrections"]] == [2]
    events = [json.loads(line) for line in render_jsonl(translated).splitlines()]
    assert [(one.text, one.speaker) for one in translated.of_speaker(2).others] == [("Oui.", 2), ("Yes.", 2)]
    assert [event["speaker"] for event in events if event["type"] in ("translation", "correction")] == [2, 1, 2]
    assert [other_text(event) for event in document_events(translated)] == [*others, None]  # the end is no text


def test_a_segment_without_words_keeps_its_voice_as_an_event() -> None:
    heard = next(document_events(Document((TextSegment(0, S, " Yes.", speaker=2),))))
    assert isinstance(heard, Confirmed)
    assert heard.words == (Word(" Yes.", 0, S, speaker=2),)


def test_cues_of_voices_that_speak_at_once_are_shown_when_they_are_spoken() -> None:
    """One that interrupts, on a channel of its own, is not shown after the long sentence, nor flashes that by."""
    long = [Word(f" alpha{n}", n * S // 2, (n + 1) * S // 2, 0.9, 1) for n in range(20)]
    others = [[word(f" beta{n}", at + n / 2, 2) for n in range(4)] for at in (2, 6)]
    segments = [part for words in (long, *others) for part in segment_words(words)]
    talk = Document(tuple(sorted(segments, key=lambda one: one.start)), duration=10 * S)
    found = cues(talk)
    assert [(cue.speaker, cue.start) for cue in found] == [(1, 0), (2, 2 * S), (1, 11 * S // 2), (2, 6 * S)]
    assert all(one.end <= after.start for one, after in pairwise(found))


def turns(*said: tuple[int, float, str], word_s: float = 0.3) -> Document:
    """Each voice says its words from a time on, one after the other."""
    segments = [
        part
        for speaker, at, text in said
        for part in segment_words(
            [
                replace(word(f" {piece}", at + n * word_s, speaker), end=round((at + (n + 1) * word_s) * S))
                for n, piece in enumerate(text.split())
            ]
        )
    ]
    return Document(tuple(sorted(segments, key=lambda one: one.start)), duration=60 * S)


def shown(srt: str) -> list[list[str]]:
    """The lines of each cue."""
    return [block.strip().split("\n")[2:] for block in srt.split("\n\n")]


FULL = "The farmer lived near the old river and often he talked with his friends there"  # 78 characters: two lines
ASKED = "Would you like to come to the market with us tomorrow morning, when the fish is fresh and the bread is warm?"


@each_row(
    ("talk", "options"),
    [
        (turns((1, 0, FULL), (2, 6, FULL), (1, 12, FULL)), SUBTITLES),
        (turns((1, 0, FULL[:42]), (2, 6, FULL[:33])), SUBTITLES),
        (turns((1, 0, ASKED), (2, 9, "Yes."), (1, 10, ASKED), (2, 17, ASKED)), SUBTITLES),
        (turns((1, 0, ASKED + " " + FULL), (2, 2.6, "No, no, no."), (2, 5.2, FULL)), SUBTITLES),  # one interrupts
        (turns((1, 0, ASKED), (2, 9, FULL)), SubtitleOptions(line_width=24)),
        (turns((1, 0, ASKED), (2, 9, FULL)), SubtitleOptions(lines=1)),
        (turns((10, 0, "x" * 29 + " " + "y" * 30), (123456, 9, "z" * 26)), SUBTITLES),
    ],
)
def test_a_voice_before_a_subtitle_counts_as_part_of_its_line(talk: Document, options: SubtitleOptions) -> None:
    found = shown(render_srt(talk, options))
    assert max(len(line) for lines in found for line in lines) <= options.line_width
    assert max(map(len, found)) <= options.lines
    words = re.sub(r"Speaker \d+: ", "", " ".join(line for lines in found for line in lines)).split()
    assert sorted(words) == sorted(word.text.strip() for word in talk.words)


def test_a_voice_is_named_where_it_changes_also_where_one_interrupts() -> None:
    talk = turns((1, 0, ASKED), (2, 2.6, "No, no, no."))
    speakers = [cue.speaker for cue in cues(talk, label=lambda _: "")]
    changes = [after != before for before, after in pairwise([None, *speakers])]
    assert [lines[0].startswith("Speaker ") for lines in shown(render_srt(talk))] == changes
    assert speakers.count(1) > 1


def test_a_translation_without_word_times_has_room_for_its_voice() -> None:
    whole = TextSegment(0, 6 * S, FULL, speaker=1)
    assert len(cues(Document((whole,)))) == 1
    found = shown(render_srt(Document((whole,))))
    assert found[0][0].startswith("Speaker 1: The farmer")
    assert max(len(line) for lines in found for line in lines) <= 42


def test_the_tag_of_a_voice_in_webvtt_takes_no_room() -> None:
    """Nobody sees it."""
    assert render_vtt(turns((1, 0, FULL))).count("-->") == 1


@pytest.mark.parametrize("word", ["x" * 35, "x" * 50])
def test_a_word_that_does_not_fit_next_to_its_voice_is_a_cue_of_its_own(word: str) -> None:
    assert shown(render_srt(turns((1, 0, f"{word} yes")))) == [[f"Speaker 1: {word}"], ["yes"]]
