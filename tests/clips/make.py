"""Makes the bundled recordings with espeak-ng and flite (Debian packages of those names): `python tests/clips/make.py`.

The demo and the test clips are synthetic speech, sentences of our own made of frequent words. The demo's sentences were
chosen among those that an earlier nano.en got right (13 of 20 tried); the test clips were not.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import av
import numpy as np

from whispertide.audio.file import load_audio
from whispertide.types import SAMPLE_RATE, FloatArray, to_samples

CLIPS = Path(__file__).parent
BUNDLED = CLIPS.parents[1] / "src" / "whispertide" / "bundled" / "audio"
PAUSE_S = 1.2  # long enough for the voice gate to end an utterance

Line = tuple[str, str]  # voice, sentence

DEMO: list[Line] = [
    ("slt", "She read the book in the garden every morning."),
    ("en-us", "A large bird came from the forest to the river."),
    ("awb", "The farmer worked in the field every summer."),
    ("en-gb", "My brother found a small box near the lake."),
    ("kal16", "They saw a black horse behind the house."),
    ("slt", "If the weather is cold, you should close the window."),
    ("en-us", "He gave my sister a red flower and a letter."),
    ("en-gb", "Where is the letter that your father found?"),
    ("slt", "The poet thought that the question was very important."),
    ("en-us", "The night was dark, but the street was still full of people."),
]

TESTS: dict[str, list[Line]] = {
    "letter": [("slt", "He wrote a letter to his father, and the young man had black hair.")],
    "river": [("awb", "They found gold in the river. The ship moved slowly across the water.")],
    "winter": [("en-us", "The water is very cold in winter. We use fire to cook food.")],
    "quiet": [("en-gb", "The best time of the year is the summer.")],
}
LONG: list[Line] = [
    (voice, sentence)
    for voice, sentences in (
        (
            "rms",
            "The house has a red door and a small window. A long line of people waited outside. The room was full.",
        ),
        (
            "slt",
            "Plants need water and light to grow. The children play in the street. She asked a difficult question.",
        ),
        (
            "kal16",
            "He was a man of great power. The king was the first to speak. You need a strong hand to open this box.",
        ),
        ("awb", "The second part of the story is about war. The people of the city want to live in peace."),
        ("en-us", "Light comes from the sun during the day. Something that is done at the end of the day."),
        ("en-gb", "The body of an animal is made of many parts. He lost his way in the dark forest."),
        (
            "rms",
            "It is a large tree with white flowers. They gave him money for his work. She put the book on the table.",
        ),
    )
    for sentence in (part.strip() + "." for part in sentences.rstrip(".").split("."))
]


def speak(voice: str, text: str) -> FloatArray:
    """One sentence as 16 kHz samples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        if voice.startswith("en-"):
            subprocess.run(["espeak-ng", "-v", voice, "-w", path, text], check=True)
        else:
            subprocess.run(["flite", "-voice", voice, "-t", text, "-o", path], check=True)
        return load_audio(path)


def recording(lines: list[Line]) -> FloatArray:
    """The sentences one after the other with pauses, peak at 0.7."""
    pause = np.zeros(to_samples(PAUSE_S), np.float32)
    parts = [pause]
    for voice, text in lines:
        speech = speak(voice, text)
        parts += [speech * (0.7 / np.abs(speech).max()), pause]
    return np.concatenate(parts)


def save(path: Path, samples: FloatArray, lines: list[Line]) -> None:
    """Write FLAC, 16 bits, and the text next to it."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("flac", rate=SAMPLE_RATE)
        stream.layout = "mono"
        pcm = np.clip(np.rint(samples * 32767), -32768, 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(pcm[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE
        for packet in (*stream.encode(frame), *stream.encode(None)):
            container.mux(packet)
    path.with_suffix(".txt").write_text(" ".join(text for _, text in lines) + "\n")


def main() -> None:
    """Write the demo recording, the test clips and the index of who says what."""
    BUNDLED.mkdir(exist_ok=True)
    save(BUNDLED / "demo.flac", recording(DEMO), DEMO)
    for name, lines in {**TESTS, "long": LONG}.items():
        samples = recording(lines) * (0.05 if name == "quiet" else 1.0)
        save(CLIPS / f"{name}.flac", samples.astype(np.float32), lines)
    (CLIPS / "voices.json").write_text(json.dumps({"demo": DEMO, **TESTS, "long": LONG}, indent=1) + "\n")


if __name__ == "__main__":
    main()
