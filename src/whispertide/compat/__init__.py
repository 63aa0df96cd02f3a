"""faster-whisper's interface over this program: change the import, and the code runs.

    from whispertide.compat import WhisperModel

`faster_whisper` has the class, `arguments` what its arguments mean here, `values` what it takes and gives.
"""

from whispertide.compat.faster_whisper import WhisperModel
from whispertide.compat.values import Segment, TranscriptionInfo, TranscriptionOptions, VadOptions, Word

__all__ = ["Segment", "TranscriptionInfo", "TranscriptionOptions", "VadOptions", "WhisperModel", "Word"]
