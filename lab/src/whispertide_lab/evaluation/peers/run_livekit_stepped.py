"""WhisperLiveKit's two policies without the server around them, on the simulated clock: runs in its own environment.

`OnlineASRProcessor` is whisper_streaming's algorithm (LocalAgreement-2, Macháček et al., 2023), which has no package of
its own; `SimulStreamingOnlineProcessor` is SimulStreaming's (AlignAtt). Both compute only when they are called.
"""

from typing import Any

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.peers.clocks import WARM_UP, Words, step_through
from whispertide_lab.evaluation.peers.gated import BLOCK_S, Gated, silero
from whispertide_lab.evaluation.peers.livekit import open_engine
from whispertide_lab.evaluation.peers.wire import Job, Recogniser, serve


class Policy:
    """One recording's worth of a policy."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._fed = 0
        self._text = ""

    def feed(self, samples: FloatArray) -> tuple[Words, Words]:
        """Take more audio and run a round."""
        self._fed += len(samples)
        self._processor.insert_audio_chunk(samples, self._fed / SAMPLE_RATE)
        tokens, _ = self._processor.process_iter()
        return self._committed(tokens), tuple(self._processor.get_buffer().text.split())

    def finish(self) -> Words:
        """What its pipeline does at the end of a stream (audio_processor.py, `_finish_transcription`)."""
        end = getattr(self._processor, "finish", None) or self._processor.start_silence
        tokens, _ = end()
        return self._committed(tokens)

    def _committed(self, tokens: Any) -> Words:
        """All text so far. Tokens bring their own spaces; some are pieces of words."""
        self._text += "".join(token.text for token in tokens or ())
        return tuple(self._text.split())


def load(job: Job) -> Recogniser:
    """Open the engine for the policy that the job names."""
    from whisperlivekit.core import online_factory

    engine = open_engine(job, job.text("policy"), gate=False)  # that one belongs to its server

    def begin() -> Policy:
        return Policy(online_factory(engine.args, engine.asr))

    warm = begin()
    warm.feed(WARM_UP)
    warm.finish()
    step_s, by = job.number("step_s"), job.clock
    if not job.settings["vad"]:
        return lambda samples: step_through(samples, begin(), step_s, by=by)
    gate = silero()
    return lambda samples: step_through(samples, Gated(gate(), begin, step_s), BLOCK_S, by=by)


if __name__ == "__main__":
    serve(load)
