"""WhisperLiveKit as its server runs it, in real time, as a rule with its voice gate: runs in its own environment."""

import asyncio
import time
from typing import Any

import numpy as np

from whispertide.types import SAMPLE_RATE, FloatArray
from whispertide_lab.evaluation.peers.clocks import WARM_UP, Screen, Words, settle
from whispertide_lab.evaluation.peers.livekit import open_engine
from whispertide_lab.evaluation.peers.wire import Job, PeerResult, Recogniser, serve

_BLOCK = SAMPLE_RATE // 10  # what its web page sends at a time
_PATIENCE_S = 600.0  # for what is still to come when the audio is over: some machines are too slow for it


def load(job: Job) -> Recogniser:
    """Open the engine for the policy that the job names."""
    from whisperlivekit.core import online_factory

    engine = open_engine(job, job.text("policy"), gate=bool(job.settings["vad"]))
    warm = online_factory(engine.args, engine.asr)
    warm.insert_audio_chunk(WARM_UP, len(WARM_UP) / SAMPLE_RATE)
    warm.process_iter()

    def recognise(samples: FloatArray) -> PeerResult:
        return PeerResult("live", settle(asyncio.run(_listen(engine, samples))))

    return recognise


async def _listen(engine: Any, samples: FloatArray) -> list[Screen]:
    """Send the samples at the speed of speech and note each state that comes back, by the time of its arrival."""
    from whisperlivekit.audio_processor import AudioProcessor

    processor = AudioProcessor(transcription_engine=engine)
    states = await processor.create_tasks()
    screens: list[Screen] = []
    began = time.perf_counter()

    async def watch() -> None:
        async for state in states:
            spoken = [line.text for line in state.lines if line.text and line.speaker != -2]
            screens.append(Screen(time.perf_counter() - began, _words(spoken), _words([state.buffer_transcription])))

    watcher = asyncio.create_task(watch())
    pcm = (np.clip(samples, -1, 1) * 32767).astype("<i2")
    for start in range(0, len(pcm), _BLOCK):
        block = pcm[start : start + _BLOCK]
        await asyncio.sleep(max(0.0, began + (start + len(block)) / SAMPLE_RATE - time.perf_counter()))
        await processor.process_audio(block.tobytes())
    await processor.process_audio(b"")
    await asyncio.wait_for(watcher, _PATIENCE_S)
    await processor.cleanup()
    return screens


def _words(texts: list[str]) -> Words:
    return tuple(" ".join(texts).split())


if __name__ == "__main__":
    serve(load)
