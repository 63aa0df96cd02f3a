"""What a late network computes for a second of sound, and how much of that is done while somebody still speaks.

Multiplications, counted by layers. A layer's work is done during ingestion where no frame needs one that comes after
it: that follows from the receptive field, and convolutions that look back only have none to the right.
"""

from dataclasses import dataclass

from whispertide.types import SAMPLE_RATE
from whispertide.understand.checkpoint import SAMPLES_PER_FRAME, LateDims

FRAMES_PER_SECOND = SAMPLE_RATE / SAMPLES_PER_FRAME


@dataclass(frozen=True, slots=True)
class Work:
    """Multiplications of the encoder for a second of sound."""

    ingested: float
    waiting: float

    @property
    def share(self) -> float:
        """How much is done while somebody speaks, 0 to 1."""
        return self.ingested / (self.ingested + self.waiting)


def encoder_work(dims: LateDims, seconds: float) -> Work:
    """Of an utterance so long: attention looks at all its frames."""
    width, inner = dims.width, dims.inner
    subsampling = 2 * 3 * dims.n_mels * width + 3 * width * width
    gated = width * inner + inner // 2 * dims.kernel + inner // 2 * width
    mixing = 2 * seconds * FRAMES_PER_SECOND * width
    attention, feed_forward = 4 * width * width + mixing, 2 * width * inner
    if dims.kind in ("late", "rnnt"):
        streamed = subsampling + dims.streaming_layers * gated
        waiting = (dims.layers - dims.streaming_layers) * (attention + 2 * width * dims.after_attention)
    elif dims.kind == "branchformer":
        streamed, waiting = subsampling, dims.layers * (attention + gated + width * width)
    else:
        convolution = 3 * width * width + width * dims.kernel
        streamed, waiting = subsampling, dims.layers * (attention + 2 * feed_forward + convolution)
    return Work(FRAMES_PER_SECOND * streamed, FRAMES_PER_SECOND * waiting)
