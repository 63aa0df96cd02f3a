"""Moonshine with the model that its wheel carries, on our clock: runs in its own environment.

It transcribes the line that is being spoken anew at each update, and is done with a line at a pause or when it becomes
long (moonshine-voice, `Stream`). Lines that it calls complete are committed, the open one is its guess. It has a voice
gate of its own, which cannot be left out.
"""

import os
from typing import Any

from whispertide.types import FloatArray
from whispertide_lab.evaluation.peers.clocks import WARM_UP, Words, step_through
from whispertide_lab.evaluation.peers.wire import Job, Recogniser, serve

_NEVER = 1e9  # seconds: updates are asked for, not left to its own count


class Lines:
    """One recording's worth of lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._lines: dict[int, Any] = {}
        stream.start()

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        """Take more audio, and have the open line transcribed again."""
        self._stream.add_audio(samples.tolist())
        self._take(self._stream.update_transcription())
        done = [line for line in self._lines.values() if line.is_complete]
        rest = [line for line in self._lines.values() if not line.is_complete]
        return _words(done), _words(rest)

    def finish(self) -> Words:
        """The audio is over: all lines."""
        self._take(self._stream.stop())
        self._stream.close()
        return _words(list(self._lines.values()))

    def _take(self, transcript: Any) -> None:
        self._lines.update({line.line_id: line for line in transcript.lines})


def _words(lines: list[Any]) -> Words:
    return tuple(word for line in sorted(lines, key=lambda line: line.start_time) for word in line.text.split())


def load(job: Job) -> Recogniser:
    """Open the model of the wheel. Its library takes as many threads as there are cores: it is given so many."""
    from moonshine_voice import ModelArch, Transcriber, get_model_path

    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(job.number("threads"))]))
    model = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY, options={"return_audio_data": "false"})

    def begin() -> Lines:
        return Lines(model.create_stream(update_interval=_NEVER))

    warm = begin()
    warm.feed(WARM_UP)
    warm.finish()
    step_s, by = job.number("step_s"), job.clock
    return lambda samples: step_through(samples, begin(), step_s, by=by)


if __name__ == "__main__":
    serve(load)
