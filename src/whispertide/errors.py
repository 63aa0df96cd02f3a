"""The errors, as one tree.

    WhispertideError
    ├── AudioError (ValueError)              the audio cannot be used
    │   ├── AudioFileError (OSError)         a file cannot be opened, or is not audio
    │   ├── TruncatedAudioError              a file ends before it should; what was decoded is kept
    │   └── AudioDeviceError (OSError)       no microphone, or it failed
    ├── CheckpointError (ValueError)         a model cannot be used
    │   ├── CheckpointNotFoundError (FileNotFoundError)   unknown name, or a file is missing
    │   ├── DownloadError (OSError)          no network, not found on the hub, interrupted
    │   └── DiskSpaceError (OSError)         no room for a model or its graphs
    ├── GraphError (RuntimeError)            a graph cannot be built or run
    │   └── ProviderError                    a requested execution provider is not available
    ├── OptionError (ValueError)             a setting is unknown or out of range
    │   ├── UnknownRecipeError (KeyError)
    │   └── UnknownLanguageError
    ├── SessionError (RuntimeError)          a session was used after its end, or out of order
    ├── TranscriptError (ValueError)         a transcript file is not in the format it should be in
    ├── CorpusError (OSError)                an evaluation corpus cannot be made or read
    ├── OutputError (OSError)                a transcript cannot be written where it should go
    └── AddressError (OSError)               a server cannot listen there, or no cluster is there

Every message says what was expected, what came, and what to do. Each error is also a builtin, so callers
that do not know this package can still handle it.
"""


class WhispertideError(Exception):
    """Base of every error that whispertide raises on purpose."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return " ".join(str(arg) for arg in self.args)


class AudioError(WhispertideError, ValueError):
    """The audio cannot be used."""


class AudioFileError(AudioError, OSError):
    """A file cannot be opened or is not audio."""


class TruncatedAudioError(AudioError):
    """A file ends, or is damaged, before its end."""


class AudioDeviceError(AudioError, OSError):
    """There is no microphone, or it failed."""


class CheckpointError(WhispertideError, ValueError):
    """A model cannot be used: damaged, truncated, mismatched or not a Whisper."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """The model name is unknown, or one of its files is missing."""


class DownloadError(CheckpointError, OSError):
    """A model could not be downloaded."""


class UnreachableError(DownloadError):
    """The Hugging Face hub, or the package index, did not answer as it should; `reason` says how."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class DiskSpaceError(CheckpointError, OSError):
    """There is no room for a model or its graphs."""


class GraphError(WhispertideError, RuntimeError):
    """A graph cannot be built or run."""


class ProviderError(GraphError):
    """A requested execution provider is not available on this machine."""


class OptionError(WhispertideError, ValueError):
    """A setting is unknown or out of range."""


class UnknownRecipeError(OptionError, KeyError):
    """No recipe has this name."""


class UnknownLanguageError(OptionError):
    """Whisper has no token for this language, or this checkpoint is English-only."""


class SessionError(WhispertideError, RuntimeError):
    """A session was used after its end, or out of order."""


class TranscriptError(WhispertideError, ValueError):
    """A transcript file is not in the format it should be in."""


class CorpusError(WhispertideError, OSError):
    """An evaluation corpus cannot be made or read: a tool, a folder or a file is missing or not as it should be."""


class OutputError(WhispertideError, OSError):
    """A transcript cannot be written where it should go."""


class KeyboardError(OutputError):
    """Text cannot be typed into windows, or a hotkey cannot be had: no display, no permission, no key."""


class AddressError(WhispertideError, OSError):
    """A server cannot listen where it should (the port is in use, or may not be used), or no cluster is there."""
