"""openai-whisper, offline: runs in its own environment."""

from typing import Any

from whispertide.lab.evaluation.peers.clocks import offline
from whispertide.lab.evaluation.peers.wire import Job, Recogniser, serve
from whispertide.types import FloatArray


def load(job: Job) -> Recogniser:
    """Open the converted model; `transcribe` at its defaults, but for what the job's settings say."""
    import torch
    import whisper

    torch.set_num_threads(int(job.number("threads")))
    model = whisper.load_model(f"{job.converted['openai']}/model.pt", device="cpu")
    options: dict[str, Any] = {"beam_size": int(job.number("beams")) or None}  # 0 is greedy, as is its default
    if not job.settings["fallback"]:
        options["temperature"] = 0.0

    def transcribe(samples: FloatArray) -> str:
        found = model.transcribe(samples, language=job.text("language"), fp16=False, **options)
        return str(found["text"])

    return offline(transcribe)


if __name__ == "__main__":
    serve(load)
