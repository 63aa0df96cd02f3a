"""The growing text of a broadcast: whoever joins when, and comes back from where, reads the same."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from whispertide.events import Confirmed, Correction, End, Event, Hypothesis, Language, Translation, TurnEnd
from whispertide.server import captions as module
from whispertide.server.captions import Captions
from whispertide.types import Word, to_samples

Said = tuple[str, float, float]


def words(*said: Said) -> tuple[Word, ...]:
    return tuple(Word(text, to_samples(start), to_samples(end)) for text, start, end in said)


def confirmed(*said: Said) -> Event:
    return Confirmed(0, 0, words(*said))


def guessed(*said: Said) -> Event:
    return Hypothesis(0, 0, words(*said))


def read(captions: Captions, run: str = "", position: int = -1) -> dict[str, Any]:
    return dict(json.loads(captions.message(run, position)[1]))


def test_words_become_text_and_the_guess_stands_after_them() -> None:
    captions = Captions()
    captions.begin("en")
    assert captions.take([confirmed((" Hello", 0.1, 0.5)), guessed((" the", 0.6, 0.7))])
    whole = read(captions)
    assert (whole["text"], whole["guess"], whole["start"], whole["end"]) == ("Hello", " the", 0, 5)
    assert (whole["language"], whole["speaking"]) == ("en", True)
    assert captions.take([confirmed((" there", 0.6, 0.9))])
    rest = read(captions, whole["run"], whole["end"])
    assert (rest["text"], rest["guess"], rest["start"]) == (" there", "", 5), "a guess of what is confirmed goes"


def test_a_line_feed_that_a_model_writes_ends_no_paragraph() -> None:
    """Each paragraph has its voice: one more would shift all that follow."""
    captions = Captions()
    first, second = words((" one\n\ntwo", 0.1, 0.5), (" three", 0.6, 0.9))
    captions.take([Confirmed(0, 0, (replace(first, speaker=1), replace(second, speaker=2)))])
    found = read(captions)
    assert (found["text"], found["speakers"]) == ("one  two\nthree", [1, 2])


def test_a_guess_that_follows_what_is_confirmed_stays() -> None:
    captions = Captions()
    captions.take([guessed((" there", 1.0, 1.2))])
    captions.take([confirmed((" hello", 0.1, 0.5))])
    assert read(captions)["guess"] == " there"


def test_what_changes_nothing_is_nothing_new() -> None:
    captions = Captions()
    assert not captions.take([TurnEnd(0, 0, 0), "flushed"])
    assert captions.take([Language(0, 0, "de", 0.9)])
    assert not captions.take([Language(0, 0, "de", 0.9)])


def test_paragraphs_end_at_pauses_in_long_ones_at_sentences_and_with_the_session() -> None:
    captions = Captions()
    captions.begin(None)
    captions.take([confirmed((" One.", 0.1, 0.5), (" Two.", 0.9, 1.2), (" Three.", 2.8, 3.0))])
    assert captions.text == "One. Two.\nThree."
    captions.take([guessed((" four", 5.0, 5.2))])
    assert captions.text.endswith("Three.\n"), "a guess after a pause stands in the next paragraph already"
    long = [(" word", 6 + n / 10, 6.1 + n / 10) for n in range(120)]
    captions.take([confirmed(*long, (" over.", 18.0, 18.1), (" More", 18.2, 18.3))])
    assert captions.text.endswith("over.\nMore")
    captions.take([confirmed(*[(" word", 19 + n / 10, 19.1 + n / 10) for n in range(400)])])
    assert max(map(len, captions.text.split("\n"))) < 1600, "nobody has to end a sentence"
    captions.take([End(0, 0, 0)])
    assert captions.text.endswith("\n")
    assert not captions.speaking


@pytest.mark.parametrize(
    ("word", "last", "ends"),
    [("كلمة", "حقا؟", True), ("शब्द", "है।", True), ("word", "said.”", True), ("word", "Mr.", False)],
)
def test_a_long_paragraph_ends_where_a_sentence_does_in_any_script(word: str, last: str, ends: bool) -> None:
    captions = Captions()
    said = [word] * 150 + [last, word]
    captions.take([confirmed(*[(f" {text}", n / 10, n / 10 + 0.1) for n, text in enumerate(said)])])
    assert captions.text.endswith(f"{last}\n{word}" if ends else f"{last} {word}")


def test_another_session_begins_a_paragraph_and_its_time_at_0() -> None:
    captions = Captions()
    captions.begin("en")
    captions.take([confirmed((" First.", 100, 101))])
    captions.begin("de")
    captions.take([confirmed((" Dann", 0.2, 0.5), (" das", 0.6, 0.7))])
    assert captions.text == "First.\nDann das"


def test_of_a_very_long_text_the_first_paragraphs_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 1000)
    captions = Captions()
    early = read(captions)
    for n in range(300):
        captions.take([confirmed((f" word{n}.", 3 * n, 3 * n + 0.5))])
    assert len(captions.text) <= 1000
    late = read(captions, early["run"], early["end"])
    assert late["start"] == captions.start > 0, "whoever was gone for so long gets what there is"
    assert late["text"].startswith("word")
    assert late["text"].endswith("word299.")


def test_a_position_of_another_run_means_nothing() -> None:
    captions = Captions()
    captions.take([confirmed((" Hello", 0, 1))])
    for run, position in (("other", 3), (captions.run, 6), (captions.run, -1)):
        assert read(captions, run, position)["text"] == "Hello"


STEPS = st.lists(st.tuples(st.sampled_from(["confirm", "guess", "turn", "session"]), st.floats(0, 3)), max_size=30)


@quick(50)
@given(steps=STEPS, joins=st.integers(0, 30), leaves=st.lists(st.booleans(), min_size=31, max_size=31))
def test_every_reader_reads_the_same(steps: list[tuple[str, float]], joins: int, leaves: list[bool]) -> None:
    """One from the beginning, one who joins late, and one who misses some messages."""
    captions, at = Captions(), 0.0
    readers = [("", -1, ""), ("", -1, ""), ("", -1, "")]
    for n, (kind, pause) in enumerate([*steps, ("turn", 0.0)]):
        at += pause
        if kind == "session":
            captions.begin(None)
            at = 0.0
        said = (f" w{n}", at, at + 0.2)
        events: dict[str, list[Event]] = {
            "confirm": [confirmed(said)],
            "guess": [guessed(said)],
            "turn": [TurnEnd(0, 0, 0)],
        }
        captions.take(events.get(kind, []))
        at += 0.2
        present = (True, n >= joins, leaves[n] or n == len(steps))
        for index, (run, position, text) in enumerate(readers):
            if present[index]:
                message = read(captions, run, position)
                kept = text if (message["run"], message["start"]) == (run, position) else ""
                readers[index] = (message["run"], message["end"], kept + message["text"])
    assert {text for _, _, text in readers[:1] + readers[2:]} == {captions.text}
    if joins <= len(steps):
        assert readers[1][2] == captions.text


def test_the_second_line_is_the_newest_translation() -> None:
    captions = Captions()
    captions.begin("en")
    captions.take([confirmed((" Hello.", 0.1, 0.5))])
    assert read(captions)["second"] == ""
    assert captions.take([Translation(0, 0, 0, 0, "fr", "Bonjour.")])
    assert not captions.take([Translation(0, 0, 0, 0, "fr", "Bonjour.")])
    assert read(captions)["second"] == "Bonjour."
    captions.take([Correction(0, 0, 0, 0, "Hello!")])
    assert read(captions)["second"] == "Hello!"
    captions.begin("en")
    assert read(captions)["second"] == ""


def test_the_second_line_has_its_speaker() -> None:
    """Of channels, or voices, in turn nobody could tell whose sentence it was."""
    captions = Captions()
    captions.begin("en", (1, 2))
    for channel in (1, 2):
        captions.take([confirmed((" Hello.", 0.1, 0.5))], channel)
    captions.take([Translation(0, 0, 0, 0, "fr", "Bonjour.")], 2)
    assert (read(captions)["second"], read(captions)["second_speaker"]) == ("Bonjour.", 2)
    assert captions.take([Translation(0, 0, 0, 0, "fr", "Bonjour.")], 1), "another says the same"
    assert read(captions)["second_speaker"] == 1
    captions.begin("en")
    assert read(captions)["second_speaker"] is None
    captions.take([voiced((" One.", 0, 1, 1)), Translation(0, 0, 0, 0, "fr", "Un.", speaker=1)])
    assert read(captions)["second_speaker"] == 3, "a voice of another session"


def voiced(*said: tuple[str, float, float, int | None]) -> Event:
    return Confirmed(
        0, 0, tuple(Word(text, to_samples(start), to_samples(end), speaker=who) for text, start, end, who in said)
    )


def test_each_voice_has_paragraphs_of_its_own() -> None:
    captions = Captions()
    captions.begin("en")
    captions.take([voiced((" Tea?", 0.1, 0.4, 1), (" Yes", 0.5, 0.8, 2))])
    first = read(captions)
    assert (first["text"], first["speakers"]) == ("Tea?\nYes", [1, 2])
    assert first["names"] == {"1": "Speaker 1", "2": "Speaker 2"}
    captions.take([voiced(("-is", 0.8, 0.9, 1), (" Now?", 1.0, 1.3, 1))])
    rest = read(captions, first["run"], first["end"])
    assert (rest["text"], rest["speakers"]) == ("-is\nNow?", [2, 1]), "a word is one voice's"
    captions.leave()
    assert read(captions)["speakers"] == [1, 2, 1, None], "nobody's yet"


def test_without_labels_nothing_is_said_of_voices() -> None:
    captions = Captions()
    captions.take([confirmed((" Hello", 0.1, 0.5))])
    assert not {"speakers", "names"} & read(captions).keys()


def test_voices_of_another_session_are_others_and_have_names_of_their_own() -> None:
    captions = Captions()
    captions.begin("en")
    captions.take([voiced((" Tea?", 0.1, 0.4, 2))])
    assert captions.name({2: "Bo"})
    assert not captions.name({2: "Bo"})
    captions.begin("en")
    captions.take([voiced((" Yes", 0.1, 0.4, 1))])
    assert captions.name({1: "Ann"})
    whole = read(captions)
    assert (whole["speakers"], whole["names"]) == ([2, 3], {"2": "Bo", "3": "Ann"})
    assert captions.name({})
    assert read(captions)["names"] == {"2": "Bo", "3": "Speaker 3"}


def test_channels_speak_in_the_order_in_which_their_words_are_confirmed() -> None:
    captions = Captions()
    captions.begin("en", (1, 2))
    captions.take([confirmed((" Tea?", 0.1, 0.4)), guessed((" It", 0.5, 0.6))], 1)
    captions.take([confirmed((" Yes", 0.6, 0.8)), guessed((" please", 0.9, 1.2))], 2)
    early = read(captions)
    assert (early["text"], early["speakers"]) == ("Tea?\nYes", [1, 2])
    assert early["names"] == {"1": "Speaker 1", "2": "Speaker 2"}
    assert early["guess"] == " please It", "first that of whoever spoke last, whose words it follows"
    captions.take([confirmed(("-is", 0.5, 0.6))], 1)
    assert captions.text == "Tea?\nYes\n-is", "no word goes on in another channel"
    captions.take([confirmed((" please", 0.9, 1.2))], 2)
    late = read(captions, early["run"], early["end"])
    assert (late["text"], late["speakers"], late["guess"]) == ("\n-is\nplease", [2, 1, 2], "")


def test_a_pause_is_one_of_its_own_channel() -> None:
    captions = Captions()
    captions.begin("en", (1, 2))
    captions.take([confirmed((" Well,", 0.1, 0.4))], 1)
    captions.take([guessed((" so", 9.0, 9.2))], 2)
    assert captions.text == "Well,", "who else has been silent ends no paragraph"
    captions.take([confirmed((" now", 0.5, 0.7))], 1)
    assert captions.text == "Well, now"
    captions.take([guessed((" what", 3.0, 3.2))], 1)
    assert captions.text == "Well, now\n"


def test_channels_end_one_by_one() -> None:
    captions = Captions()
    captions.begin("en", (1, 2))
    captions.take([guessed((" a", 0.1, 0.2))], 1)
    captions.take([guessed((" b", 0.1, 0.2))], 2)
    assert captions.take([End(0, 0, 0)], 1)
    assert (read(captions)["guess"], captions.speaking) == (" b", True)
    assert not captions.take([confirmed((" late", 0.3, 0.4))], 1)
    captions.take([End(0, 0, 0)], 2)
    assert (read(captions)["guess"], captions.speaking) == ("", False)
    captions.join(1)
    assert captions.speaking


def test_voices_of_paragraphs_that_are_dropped_go_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 100)
    captions = Captions()
    captions.begin("en")
    captions.take([voiced(*((f" word{n}", n, n + 0.5, 1 + n % 3) for n in range(40)))])
    whole = read(captions)
    assert len(whole["speakers"]) == whole["text"].count("\n") + 1
    assert [1 + int(part[4:]) % 3 for part in whole["text"].split("\n")] == whole["speakers"]
