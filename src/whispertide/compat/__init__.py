"""faster-whisper's interface over this program: change the import, and the code runs.

    from whispertide.compat import BatchedInferencePipeline, WhisperModel

`faster_whisper` has the model, `batched` its pipeline, `arguments` what arguments mean here, `values` what it takes and
gives.
"""

from whispertide.compat.batched import BatchedInferencePipeline
from whispertide.compat.faster_whisper import WhisperModel
from whispertide.compat.values import Segment, TranscriptionInfo, TranscriptionOptions, VadOptions, Word

__all__ = [
    "BatchedInferencePipeline",
    "Segment",
    "TranscriptionInfo",
    "TranscriptionOptions",
    "VadOptions",
    "WhisperModel",
    "Word",
]
