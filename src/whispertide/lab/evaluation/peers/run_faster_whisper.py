"""faster-whisper, offline: runs in its own environment."""

from whispertide.lab.evaluation.peers.clocks import offline
from whispertide.lab.evaluation.peers.wire import Job, Recogniser, serve
from whispertide.types import FloatArray


def load(job: Job) -> Recogniser:
    """Open the converted model as `WhisperModel` does by default, but for what the job's settings say."""
    from faster_whisper import WhisperModel

    model = WhisperModel(
        job.converted["ct2"],
        device="cpu",
        compute_type=job.text("compute_type"),
        cpu_threads=int(job.number("threads")),
        local_files_only=True,
    )
    options = {"beam_size": int(job.number("beams"))}
    if not job.settings["fallback"]:
        options["temperature"] = 0

    def transcribe(samples: FloatArray) -> str:
        segments, _ = model.transcribe(samples, language=job.text("language"), **options)
        return "".join(segment.text for segment in segments)

    return offline(transcribe)


if __name__ == "__main__":
    serve(load)
