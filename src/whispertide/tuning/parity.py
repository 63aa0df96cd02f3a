"""Parity of an engine with a reference: log-probabilities along the same transcript, compared.

The references are the model's own fp32 graphs and, if torch and transformers are installed, transformers.
"""

import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whispertide.checkpoint.palette_file import is_palettised
from whispertide.checkpoint.safetensors_file import SafetensorsFile
from whispertide.decoding.rules import log_softmax
from whispertide.decoding.window import decode_window
from whispertide.features import log_mel
from whispertide.model.engine import DecodeRequest, required
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.types import HOP_LENGTH, N_SAMPLES, FloatArray

_TOKENS = 96  # of the transcript that are compared
_OF_TRANSFORMERS = ("*.safetensors", "pytorch_model*.bin")  # not a folder of CTranslate2
PARITY = (
    "Log-probabilities along the greedy transcript of the bundled recording. Largest error: of any token, relative to "
    "the largest log-probability. Mean error: of the tokens of the transcript, in nats. Same tokens: share of "
    "positions at which both choose the same token."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a comparison: the largest errors, and the least agreement; see `Parity`."""

    largest_error: float
    mean_error: float
    agreement: float


# fp32 engines differ by rounding. 8-bit ones differ most on tokens that nobody would choose, where it does not matter;
# a broken one is off by nats on those that are chosen, and chooses others.
EXACT = Limits(largest_error=1e-3, mean_error=1e-3, agreement=1.0)
QUANTISED = Limits(largest_error=math.inf, mean_error=0.5, agreement=0.9)


@dataclass(frozen=True, slots=True)
class Parity:
    """One comparison of log-probabilities along the same transcript.

    largest_error  largest difference of any log-probability, relative to the largest log-probability there is
    mean_error     mean difference for the tokens of the transcript, in nats
    agreement      share of positions at which both would choose the same token
    """

    what: str
    against: str
    largest_error: float
    mean_error: float
    agreement: float
    limits: Limits

    @property
    def passed(self) -> bool:
        """True within all limits (a figure that is no number is not)."""
        return (
            self.largest_error <= self.limits.largest_error
            and self.mean_error <= self.limits.mean_error
            and self.agreement >= self.limits.agreement
        )


def check_parity(model: WhisperModel, exact: WhisperModel, samples: FloatArray, folder: Path) -> list[Parity]:
    """Compare `model` with its own fp32 graphs `exact`, and those with transformers if that is installed.

    samples  up to 30 s of speech; `folder` is where the checkpoint lies, for transformers.
    """
    mel = log_mel(samples[:N_SAMPLES], exact.dims.n_mels, padding=max(0, N_SAMPLES - len(samples)))
    mel = mel[:, : N_SAMPLES // HOP_LENGTH]
    tokens = _transcript(exact, mel)
    truth = log_probabilities(exact, mel, tokens)
    checks = []
    if model.options.precision != "fp32":
        mine = log_probabilities(model, mel, tokens)
        checks.append(compare(f"{model.options.precision} engine", "own fp32", mine, truth, tokens, QUANTISED))
    other = transformers_log_probabilities(folder, mel, tokens)
    if other is not None:
        checks.append(compare("own fp32", "transformers", truth, other, tokens, EXACT))
    return checks


def compare(what: str, against: str, mine: FloatArray, truth: FloatArray, tokens: list[int], limits: Limits) -> Parity:
    """Compare log-probabilities [positions, vocab]; row i is what follows `tokens[i]`."""
    error = np.abs(mine - truth)
    of_text = error[np.arange(len(tokens) - 1), tokens[1:]]
    return Parity(
        what,
        against,
        largest_error=float(error.max() / np.abs(truth).max()),
        mean_error=float(of_text.mean()),
        agreement=float((mine.argmax(axis=-1) == truth.argmax(axis=-1)).mean()),
        limits=limits,
    )


def _transcript(model: WhisperModel, mel: FloatArray) -> list[int]:
    """The start sequence and a greedy transcript after it."""
    options = DecodeOptions(temperatures=(0.0,), max_tokens=_TOKENS, word_timestamps=False)
    language = "en" if model.tokenizer.is_multilingual else None
    decoded = decode_window(model, model.encode(mel), options, language=language)
    start = model.tokenizer.sot_sequence(language, options.task, options.timestamps)
    return [*start, *decoded.tokens]


def log_probabilities(model: WhisperModel, mel: FloatArray, tokens: list[int]) -> FloatArray:
    """Compute [positions, vocab] log-probabilities of the next token along `tokens`."""
    request = DecodeRequest(np.array([tokens], np.int64), logits_at=tuple(range(len(tokens))), need="logits")
    output = model.decoder(model.encode(mel)).run(request)
    return log_softmax(required(output.logits, "logits")[0].astype(np.float64))


def transformers_log_probabilities(folder: Path, mel: FloatArray, tokens: list[int]) -> FloatArray | None:
    """Compute the same by transformers in fp32; None if it is not installed or cannot read such a checkpoint."""
    is_installed = all(importlib.util.find_spec(name) is not None for name in ("torch", "transformers"))
    if not (is_installed and _has_its_weights(folder)):
        return None
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    reference = (
        transformers.WhisperForConditionalGeneration.from_pretrained(folder, local_files_only=True).float().eval()
    )
    with torch.no_grad():
        logits = reference(
            input_features=torch.from_numpy(mel[None].copy()), decoder_input_ids=torch.tensor([tokens])
        ).logits
    return log_softmax(logits[0].double().numpy())


def _has_its_weights(folder: Path) -> bool:
    """True if a folder has weights that transformers reads. Of palettes it knows nothing, and makes weights up."""
    files = [file for pattern in _OF_TRANSFORMERS for file in folder.glob(pattern)]  # none in a file
    return bool(files) and not any(
        file.suffix == ".safetensors" and is_palettised(SafetensorsFile(file)) for file in files
    )
