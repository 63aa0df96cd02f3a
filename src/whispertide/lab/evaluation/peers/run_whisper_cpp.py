"""whisper.cpp through its Python wheel, offline: runs in its own environment."""

from typing import Any

from whispertide.lab.evaluation.peers.clocks import offline
from whispertide.lab.evaluation.peers.wire import Job, Recogniser, serve
from whispertide.types import FloatArray


def load(job: Job) -> Recogniser:
    """Open the converted model; greedy with its own fallback as by default, or beam search."""
    from pywhispercpp.model import Model

    beams = int(job.number("beams"))
    options: dict[str, Any] = {"beam_search": {"beam_size": beams, "patience": -1.0}} if beams else {}
    if not job.settings["fallback"]:
        options["temperature_inc"] = 0.0
    model = Model(
        f"{job.converted['ggml']}/model.bin",
        params_sampling_strategy=1 if beams else 0,
        redirect_whispercpp_logs_to=None,
        n_threads=int(job.number("threads")),
        language=job.text("language"),
        print_progress=False,
        **options,
    )

    def transcribe(samples: FloatArray) -> str:
        return " ".join(segment.text for segment in model.transcribe(samples))

    return offline(transcribe)


if __name__ == "__main__":
    serve(load)
