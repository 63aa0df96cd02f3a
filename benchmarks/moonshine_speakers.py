"""Whose words, by moonshine-voice: runs in that package's environment, for `benchmarks/speakers.py --peer`.

`python benchmarks/moonshine_speakers.py TALK.wav`: 16 kHz, mono, 16 bit; heard as a whole and, in blocks of half a
second, as a stream. Prints JSON: the version, and for each way the seconds of computing and the lines: `text`, `start`,
`end`, and `spans` of [start, end, number of the voice from 1]. The weights are those of the wheel.
"""

import json
import sys
import time
import wave
from importlib.metadata import version
from typing import Any

import numpy as np
from moonshine_voice import ModelArch, Transcriber, get_model_path

BLOCK = 8_000


def lines_of(transcript: Any, numbers: dict[int, int]) -> list[dict[str, Any]]:
    """The lines with the spans of their voices, which get numbers in the order in which they appear."""
    found = []
    for line in sorted(transcript.lines, key=lambda one: float(one.start_time)):
        spans = [
            (span.start_time, span.start_time + span.duration, numbers.setdefault(span.speaker_id, len(numbers) + 1))
            for span in line.speaker_spans or ()
        ]
        end = line.start_time + line.duration
        found.append({"text": line.text, "start": line.start_time, "end": end, "spans": spans})
    return found


def main(path: str) -> None:
    """Hear the recording in both ways."""
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32_768
    options = {"return_audio_data": "false", "identify_speakers": "true"}
    model = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY, options=options)
    began = time.process_time()
    whole = lines_of(model.transcribe_without_streaming(samples.tolist(), 16_000), {})
    between = time.process_time()
    stream = model.create_stream(update_interval=1e9)  # asked for below, not by its own count
    stream.start()
    kept: dict[int, Any] = {}
    for at in range(0, len(samples), BLOCK):
        stream.add_audio(samples[at : at + BLOCK].tolist())
        kept.update({line.line_id: line for line in stream.update_transcription().lines})
    last = stream.stop()
    kept.update({line.line_id: line for line in last.lines})
    last.lines = list(kept.values())
    ways = {
        "recording": {"seconds": between - began, "lines": whole},
        "stream": {"seconds": time.process_time() - between, "lines": lines_of(last, {})},
    }
    print(json.dumps({"version": version("moonshine-voice"), **ways}))


if __name__ == "__main__":
    main(sys.argv[1])
