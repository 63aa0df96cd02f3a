"""`WhisperModel` as faster-whisper 1.2 has it: the same arguments, in the same order, with the same defaults.

`transcribe` reads the recording and finds its language; segments are decoded as they are asked for. What this program
does not do is an `OptionError`, which is a `ValueError`, or a `UserWarning` where the caller can do without it.
"""

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from whispertide import api
from whispertide.audio.given import Samples, audio_blocks
from whispertide.audio.whole import Recording
from whispertide.checkpoint import hub
from whispertide.checkpoint.languages import language_code
from whispertide.compat.arguments import check_served, decode_options, lasting_prompt, vad_options
from whispertide.compat.progress import shown
from whispertide.compat.values import Segment, TranscriptionInfo, TranscriptionOptions, VadOptions
from whispertide.decoding.language import DetectedLanguage, detect_language
from whispertide.decoding.token_words import APPENDED, PREPENDED
from whispertide.errors import OptionError, UnknownLanguageError
from whispertide.offline import Heard, hear, transcribe_heard
from whispertide.options import DecodeOptions, Task
from whispertide.spellings import precision_of, provider_of
from whispertide.types import HOP_LENGTH, N_FRAMES, seconds

Audio = str | Path | BinaryIO | Samples
FALLBACK = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class WhisperModel:
    """A loaded model. `transcriber` is the model underneath, with all that this program can do."""

    def __init__(
        self,
        model_size_or_path: str,
        device: str = "auto",
        device_index: int | Sequence[int] = 0,
        compute_type: str = "default",
        cpu_threads: int = 0,
        num_workers: int = 1,
        download_root: str | None = None,
        local_files_only: bool = False,
        files: Mapping[str, Any] | None = None,
        revision: str | None = None,
        use_auth_token: str | bool | None = None,
        **model_kwargs: Any,
    ) -> None:
        """Load a model by name, folder or id on the Hugging Face hub; it is downloaded if it is not here.

        `num_workers` needs no number here: any number of threads may transcribe at once. Raises what `whispertide.load`
        raises, and `OptionError` for what cannot be served.
        """
        _check_place(device_index, files, use_auth_token)
        if download_root is not None:
            _warn("download_root has no effect: models are in the Hugging Face cache; HF_HUB_CACHE sets its folder")
        if model_kwargs:
            _warn(f"{', '.join(model_kwargs)}: no effect, because CTranslate2 is not used")
        # A folder comes before a name of the same spelling, as there.
        name = os.path.abspath(model_size_or_path) if os.path.isdir(model_size_or_path) else model_size_or_path
        precision, provider = precision_of(compute_type), provider_of(device)
        if local_files_only:
            hub.path(name, revision)  # for its error
        self.transcriber = api.load(
            name, precision=precision, provider=provider, threads=cpu_threads, revision=revision
        )

    @property
    def is_multilingual(self) -> bool:
        """True if the model knows more than English."""
        return self.transcriber.dims.is_multilingual

    @property
    def supported_languages(self) -> list[str]:
        """The codes of the languages that the model writes."""
        return list(self.transcriber.tokenizer.languages) if self.is_multilingual else ["en"]

    def transcribe(
        self,
        audio: Audio,
        language: str | None = None,
        task: Task = "transcribe",
        log_progress: bool = False,
        beam_size: int = 5,
        best_of: int = 5,
        patience: float = 1,
        length_penalty: float = 1,
        repetition_penalty: float = 1,
        no_repeat_ngram_size: int = 0,
        temperature: float | Sequence[float] = FALLBACK,
        compression_ratio_threshold: float | None = 2.4,
        log_prob_threshold: float | None = -1.0,
        no_speech_threshold: float | None = 0.6,
        condition_on_previous_text: bool = True,
        prompt_reset_on_temperature: float = 0.5,
        initial_prompt: str | Sequence[int] | None = None,
        prefix: str | None = None,
        suppress_blank: bool = True,
        suppress_tokens: Sequence[int] | None = (-1,),
        without_timestamps: bool = False,
        max_initial_timestamp: float = 1.0,
        word_timestamps: bool = False,
        prepend_punctuations: str = PREPENDED,
        append_punctuations: str = APPENDED,
        multilingual: bool = False,
        vad_filter: bool = False,
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        max_new_tokens: int | None = None,
        chunk_length: int | None = None,
        clip_timestamps: str | Sequence[Any] = "0",
        hallucination_silence_threshold: float | None = None,
        hotwords: str | None = None,
        language_detection_threshold: float | None = 0.5,
        language_detection_segments: int = 1,
    ) -> tuple[Iterator[Segment], TranscriptionInfo]:
        """Read a recording (a path, an open file, or samples [n] at 16 kHz); its segments are decoded one by one as
        they are asked for.

        Audio that breaks off is transcribed as far as it goes, with a `UserWarning`. Raises `AudioError` where there
        is none, and `OptionError` for arguments that cannot be served.
        """
        asked = TranscriptionOptions.of(
            locals(),
            temperatures=[temperature] if isinstance(temperature, int | float) else list(temperature),
            initial_prompt=initial_prompt if isinstance(initial_prompt, str | None) else list(initial_prompt),
            multilingual=multilingual and self.is_multilingual,
        )
        check_served(asked, chunk_length=chunk_length, vad_filter=vad_filter)
        gate, lasting = vad_options(vad_parameters, used=vad_filter), lasting_prompt(hotwords)
        wanted = self._known_language(language)
        heard = self._hear(audio, vad=vad_filter)
        detected = wanted or self._detect(heard, language_detection_segments, language_detection_threshold)
        options = decode_options(
            asked,
            self.transcriber.tokenizer,
            language=None if asked.multilingual else detected.language,
            task=task,
        )
        # For its error: an English model translates not.
        self.transcriber.tokenizer.sot_sequence(options.language, task)
        samples, voice = heard.features.samples, heard.voice
        info = TranscriptionInfo(
            language=detected.language,
            language_probability=detected.probability,
            duration=seconds(samples),
            duration_after_vad=seconds(samples if voice is None else voice.shown(samples)),
            all_language_probs=_ranked(detected),
            transcription_options=asked,
            vad_options=gate,
        )
        return self._segments(heard, options, lasting, word_timestamps=word_timestamps, show=log_progress), info

    def detect_language(
        self,
        audio: Samples | None = None,
        features: Samples | None = None,
        vad_filter: bool = False,
        vad_parameters: Mapping[str, Any] | VadOptions | None = None,
        language_detection_segments: int = 1,
        language_detection_threshold: float | None = 0.5,
    ) -> tuple[str, float, list[tuple[str, float]]]:
        """Detect the language of samples [n] at 16 kHz: its code, its probability, and those of all languages.

        The first window whose likeliest language is probable enough decides, else what most windows sound like. Raises
        `UnknownLanguageError` for an English-only model.
        """
        if audio is None:
            got = "features" if features is not None else "neither"
            raise OptionError(f"expected audio, samples at 16 kHz; got {got}: features are computed from it here")
        vad_options(vad_parameters, used=vad_filter)
        if not self.is_multilingual:
            raise UnknownLanguageError(f"expected a multilingual model; {self.transcriber.name} supports only English")
        heard = self._hear(audio, vad=vad_filter)
        detected = self._detect(heard, language_detection_segments, language_detection_threshold)
        return detected.language, detected.probability, _ranked(detected) or []

    # --- parts -------------------------------------------------------------------------------------------------------

    def _known_language(self, language: str | None) -> DetectedLanguage | None:
        """The language that needs no listening: the one asked for, or that of an English-only model."""
        if self.is_multilingual:
            return None if language is None else DetectedLanguage(self.transcriber.tokenizer.language(language), 1.0)
        if language is not None and language_code(language) != "en":
            _warn(f"{self.transcriber.name} supports only English: language={language!r} has no effect")
        return DetectedLanguage("en", 1.0)

    def _hear(self, audio: Audio, *, vad: bool) -> Heard:
        blocks, n_mels = audio_blocks(audio), self.transcriber.dims.n_mels
        if isinstance(audio, np.ndarray):  # which may be empty, as there
            return hear(n_mels, blocks, vad=vad)
        recording = Recording(blocks)
        heard = hear(n_mels, recording, vad=vad)
        if recording.broken is not None:
            _warn(str(recording.broken))
        return heard

    def _detect(self, heard: Heard, windows: int, threshold: float | None) -> DetectedLanguage:
        """The language of the first windows, from where somebody begins to speak."""
        model, spans = self.transcriber.model, heard.voice.spans if heard.voice is not None else ()
        begin = spans[0].start // HOP_LENGTH if spans else 0
        found: list[DetectedLanguage] = []
        for number in range(max(1, windows)):
            first = begin + number * N_FRAMES
            if found and first >= heard.features.frames:
                break
            found.append(detect_language(model, model.encode(heard.features.opening(first))))
            if found[-1].probability > (threshold or 0):
                return found[-1]
        codes = [each.language for each in found]
        most = max(codes, key=codes.count)
        return max((each for each in found if each.language == most), key=lambda each: each.probability)

    def _segments(
        self, heard: Heard, options: DecodeOptions, lasting: str, *, word_timestamps: bool, show: bool
    ) -> Iterator[Segment]:
        with shown(show) as progress:
            for segment in transcribe_heard(self.transcriber.model, heard, options, progress=progress, lasting=lasting):
                yield Segment.of(segment, word_timestamps=word_timestamps)


def _check_place(
    device_index: int | Sequence[int], files: Mapping[str, Any] | None, use_auth_token: str | bool | None
) -> None:
    if device_index not in (0, [0], (0,)):
        raise OptionError(f"expected device_index 0; got {device_index!r}: choose a GPU by CUDA_VISIBLE_DEVICES")
    if files is not None:
        raise OptionError("expected a model by name or folder; got files in memory: write them to a folder")
    if isinstance(use_auth_token, str):
        raise OptionError("expected no use_auth_token; got one: put the token into the environment, as HF_TOKEN")


def _ranked(detected: DetectedLanguage) -> list[tuple[str, float]] | None:
    """All languages, the likeliest first; None where nobody listened."""
    return sorted(detected.shares.items(), key=lambda share: -share[1]) or None


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=3)
