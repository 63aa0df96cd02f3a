import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import espeakng_loader
import numpy as np
import pytest

from speech_checks import assert_times_fit
from whispertide.errors import CorpusError
from whispertide_lab.speech import espeak
from whispertide_lab.speech.espeak import EspeakSpeaker, Mark, espeak_version, shared_spans, word_spans


def marks(*entries: tuple[int, int | str]) -> list[Mark]:
    return [Mark(at, what) if isinstance(what, int) else Mark(at, -1, what) for at, what in entries]


def test_a_word_ends_where_the_next_begins_or_a_pause() -> None:
    given = marks((0, 0), (5, "h"), (60, "i"), (100, "_:"), (180, 4), (180, "D"), (220, "e@"), (400, "_"))
    assert word_spans("Hi, there", given, 500) == [(0, 100), (180, 400)]


def test_a_pause_before_a_word_sounds_does_not_end_it() -> None:
    assert word_spans("go", marks((0, 0), (0, "_"), (10, "g"), (50, "oU")), 90) == [(0, 90)]


def test_an_article_joined_to_its_neighbour_is_found_by_its_sounds() -> None:
    the = marks((0, 0), (0, "V"), (20, "v"), (40, "D"), (60, "@2"), (80, 7), (80, "s"), (99, "i:"))
    assert word_spans("of the sea", the, 150) == [(0, 40), (40, 80), (80, 150)]
    a = marks((0, 0), (0, "@"), (20, "v"), (40, "@"), (80, 5), (80, "s"), (99, "i:"))
    assert word_spans("of a sea", a, 150) == [(0, 40), (40, 80), (80, 150)]


@pytest.mark.parametrize(
    "given",
    [
        marks((0, 0), (0, "D"), (20, "e@"), (40, "w"), (60, "V")),  # "was" has no mark of its own
        marks((0, 0), (10, 2), (40, 6)),  # a mark inside a word
        marks((40, 0), (10, 6)),  # backwards
    ],
)
def test_what_cannot_be_told_apart_is_refused(given: list[Mark]) -> None:
    assert word_spans("There was", given, 100) is None


def test_words_not_told_apart_share_their_span_by_their_letters() -> None:
    given = marks((0, 0), (0, "D"), (20, "e@"), (40, "w"), (60, "V"), (80, 10), (80, "s"), (96, "_:"))
    assert shared_spans("There was sea.", given, 150) == ([(0, 50), (50, 80), (80, 96)], False)
    assert shared_spans("it is", marks((40, 3), (40, "I")), 100) == ([(0, 40), (40, 100)], False)


def test_words_told_apart_have_the_same_times_when_sharing_is_allowed() -> None:
    text, given = (
        "of the sea",
        marks((0, 0), (0, "V"), (20, "v"), (40, "D"), (60, "@2"), (80, 7), (80, "s"), (99, "i:")),
    )
    assert shared_spans(text, given, 150) == (word_spans(text, given, 150), True)


def test_a_mark_inside_a_compound_does_not_matter_to_its_times() -> None:
    given = marks((0, 0), (0, "w"), (30, 5), (30, "n"), (60, 11), (60, "d"))
    assert shared_spans("well-known dog", given, 100) == ([(0, 60), (60, 100)], True)


def test_marks_out_of_order_are_refused_even_when_sharing_is_allowed() -> None:
    assert shared_spans("There was", marks((40, 0), (10, 6)), 100) is None


@pytest.mark.parametrize("voice", ["en-us", "en-gb-scotland", "en-us+f3", "en-us+klatt2"])
def test_word_times_are_those_of_the_sound(voice: str) -> None:
    speaker = EspeakSpeaker(voice, rate=150, pitch=50)
    for text in ("She read the book of the year.", "After the night was cold, six dogs slept near a door."):
        spoken = speaker.speak(text)
        assert spoken is not None
        assert_times_fit(spoken, text)


@pytest.mark.slow
def test_breath_is_the_same_at_another_time() -> None:
    """In a process of its own, as talks are made: the noise of this voice is drawn."""
    code = (
        "import hashlib; from whispertide_lab.speech.espeak import EspeakSpeaker\n"
        "spoken = EspeakSpeaker('en-us+f3', rate=150, pitch=50).speak('The house was cold.')\n"
        "print(hashlib.sha256(spoken.samples.tobytes()).hexdigest())"
    )
    found = set()
    for _ in range(2):
        found.add(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        time.sleep(1.1)  # espeak-ng's seed is the time in seconds
    assert len(found) == 1


def test_a_slower_voice_takes_longer() -> None:
    text = "The doctor walked to the river."
    slow, fast = (EspeakSpeaker("en-us", rate=rate, pitch=50).speak(text) for rate in (120, 180))
    assert slow is not None
    assert fast is not None
    assert len(slow.samples) > 1.2 * len(fast.samples)


def test_an_unknown_voice_is_refused() -> None:
    with pytest.raises(CorpusError, match="does not know xx-none"):
        EspeakSpeaker("xx-none", rate=150, pitch=50)


def in_a_process_of_its_own(code: str, *arguments: str) -> str:
    """What `code` prints; the library's state, which sentences change, is new there."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PATH": ""})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


EVERY_VOICE = """
from whispertide_lab.speech.espeak import EspeakSpeaker
from whispertide_lab.speech.manners import VOICES
from whispertide_lab.speech.voices import HELD_OUT, TRAINED
corpora = [str(voice) for voice in (*TRAINED, *HELD_OUT)]
names = [voice.partition(":")[2] for voice in (*corpora, *VOICES) if voice.startswith("espeak-ng:")]
print(len([EspeakSpeaker(name, rate=150, pitch=50) for name in names]))
"""


@pytest.mark.slow
def test_every_voice_is_in_the_wheel() -> None:
    """Those of the corpora, and those that may be trained on."""
    assert int(in_a_process_of_its_own(EVERY_VOICE)) > 100


SPEAK = """
import hashlib
from whispertide_lab.speech import espeak
espeak.find_library = None  # the system's library is not looked for
spoken = espeak.EspeakSpeaker("en-us", rate=150, pitch=50).speak("She read the book of the year.")
print(espeak.espeak_version(), hashlib.sha256(spoken.samples.tobytes()).hexdigest()[:8], spoken.words[:3])
"""


def test_the_wheel_speaks_as_the_systems_library_did() -> None:
    said = in_a_process_of_its_own(SPEAK)
    assert said.startswith("1.52")
    if platform.machine() == "x86_64":
        # what Debian's espeak-ng 1.51 makes of this sentence, to the sample
        assert said.endswith("224e0257 ((0, 3355), (3355, 7875), (7875, 9894))")


def test_without_the_wheel_the_system_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(espeak, "find_library", lambda name: "libnot-there.so.9")
    with pytest.raises(CorpusError, match=r"libnot-there.*pip install \./lab"):
        espeak_version()


STARTED = """
import sys
from pathlib import Path
from whispertide.errors import CorpusError
from whispertide_lab.speech import espeak
library, _ = espeak._library()
for data in map(Path, sys.argv[1:]):
    espeak._library = lambda: (library, data)
    try:
        espeak.EspeakSpeaker("en-us", rate=150, pitch=50)
        print("it starts")
    except CorpusError as error:
        print(error)
"""


def test_data_that_is_missing_or_too_far_is_said_with_what_to_do() -> None:
    """And the longest path that is known to do does."""
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        longest, longer = (Path(short, "d" * (espeak._LONGEST_PATH + more - len(short) - 1)) for more in (0, 1))
        for folder in (longest, longer):
            folder.symlink_to(Path(espeakng_loader.get_library_path()).parent)
        places = map(str, (Path(short, "gone"), longer, longest))
        gone, too_long, starts = in_a_process_of_its_own(STARTED, *places).splitlines()
    assert re.search(r"gone is missing or damaged; .*pip install \./lab", gone)
    assert "a folder with a shorter name" in too_long
    assert starts == "it starts"


def test_sound_is_16_bit_and_not_silent() -> None:
    spoken = EspeakSpeaker("en", rate=150, pitch=50).speak("A small house.")
    assert spoken is not None
    assert spoken.samples.dtype == np.int16
    assert np.abs(spoken.samples).max() > 3000


@pytest.mark.slow
def test_a_voice_speaks_as_before_after_another_that_shares_its_phonemes() -> None:
    """In a process of its own: what goes wrong here ends it."""
    program = (
        "import sys\n"
        "from whispertide_lab.speech.espeak import EspeakSpeaker\n"
        "voices = sys.argv[1:]\n"
        "for voice in voices:\n"
        "    speaker = EspeakSpeaker(voice, rate=160, pitch=50, shared=True)\n"
        "    said = [speaker.speak(text) for text in ('Replay please.', 'Is April fifteenth on a weekend?')]\n"
        "print(*(abs(spoken.samples.astype(float)).sum() for spoken in said))\n"
    )

    def loudness(*voices: str) -> list[float]:
        command = [sys.executable, "-c", program, *voices]
        return [*map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())]

    # Not to the bit: breath and echo go on from the sentence before.
    assert loudness("en", *["en+m6", "en"] * 6) == pytest.approx(loudness("en"), rel=0.03)
