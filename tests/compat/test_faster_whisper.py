"""Code for faster-whisper, with the import changed."""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cache
from importlib.metadata import metadata
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from each_row import each_row
from reference import believe_as_openai, ct2_folder, nano, own_nano
from wav_file import save_wav
from whispertide import api, compat
from whispertide.audio.file import load_audio
from whispertide.compat import BatchedInferencePipeline, WhisperModel, faster_whisper
from whispertide.decoding.language import DetectedLanguage
from whispertide.errors import AudioError, CheckpointNotFoundError, OptionError, UnknownLanguageError
from whispertide.options import DecodeOptions
from whispertide.types import SAMPLE_RATE, OfflineSegment, Span, Word

CLIP = Path(__file__).parents[1] / "clips" / "quiet.flac"
Loads = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    """How models were loaded; each is the bundled one."""
    calls: Loads = []

    def load(model: str, **settings: Any) -> api.Transcriber:
        calls.append((model, settings))
        return api.Transcriber(nano())

    monkeypatch.setattr(api, "load", load)
    return calls


@pytest.fixture
def model(loads: Loads) -> WhisperModel:
    return WhisperModel("nano.en")


# --- the same interface ----------------------------------------------------------------------------------------------


@cache
def theirs() -> dict[str, ast.ClassDef]:
    """The classes of the faster-whisper that is installed, which is not imported."""
    spec = find_spec("faster_whisper")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    trees = [ast.parse((folder / name).read_text(encoding="utf-8")) for name in ("transcribe.py", "vad.py")]
    return {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


def as_plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@each_row(
    ("kind", "name"),
    [
        (WhisperModel, "__init__"),
        (WhisperModel, "transcribe"),
        (WhisperModel, "detect_language"),
        (BatchedInferencePipeline, "__init__"),
        (BatchedInferencePipeline, "transcribe"),
    ],
)
def test_the_arguments_are_theirs_in_order_and_with_their_defaults(kind: type, name: str) -> None:
    function = next(
        node for node in theirs()[kind.__name__].body if isinstance(node, ast.FunctionDef) and node.name == name
    )
    defaults = [ast.literal_eval(default) for default in function.args.defaults]
    names = [argument.arg for argument in function.args.args]
    ours = [each for each in signature(getattr(kind, name)).parameters.values() if each.kind != each.VAR_KEYWORD]
    assert [each.name for each in ours] == names
    assert [as_plain(each.default) for each in ours if each.default is not each.empty] == defaults


@each_row("name", ["Segment", "Word", "TranscriptionInfo", "TranscriptionOptions", "VadOptions"])
def test_what_it_gives_has_their_names(name: str) -> None:
    named = [node.target for node in theirs()[name].body if isinstance(node, ast.AnnAssign)]
    assert [field.name for field in fields(getattr(compat, name))] == [ast.unparse(target) for target in named]


@each_row("name", ["Segment", "Word", "TranscriptionInfo", "TranscriptionOptions"])
def test_what_it_gives_has_their_methods(name: str) -> None:
    methods = [node.name for node in theirs()[name].body if isinstance(node, ast.FunctionDef)]
    assert [method for method in methods if not callable(getattr(getattr(compat, name), method, None))] == []


def test_a_segment_becomes_a_dictionary_with_its_words() -> None:
    word = compat.Word(0.0, 0.5, " Tea", 0.5)
    segment = compat.Segment(1, 0, 0.0, 0.5, " Tea", [1], -0.1, 1.0, 0.0, [word], 0.0)
    with pytest.deprecated_call():
        assert segment._asdict() == asdict(segment)
    with pytest.deprecated_call():
        assert word._asdict() == {"start": 0.0, "end": 0.5, "word": " Tea", "probability": 0.5}
    assert asdict(segment)["words"] == [asdict(word)]


# --- their examples --------------------------------------------------------------------------------------------------


def published_examples() -> list[str]:
    """The programs of their README that transcribe."""
    readme = metadata("faster-whisper").json["description"]
    assert isinstance(readme, str)
    found = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    return [code for code in found if ".transcribe(" in code]


@pytest.mark.slow
def test_their_published_examples_run_unchanged_but_for_the_import(
    loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_wav(tmp_path / "audio.mp3", load_audio(CLIP)[: 2 * SAMPLE_RATE])  # the decoder looks at the content
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    names: dict[str, Any] = {}
    examples = published_examples()
    for code in examples:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            exec(code.replace("from faster_whisper import", "from whispertide.compat import"), names)
            list(names["segments"])  # of those that only make them
        assert ["vad_parameters" in str(each.message) for each in warned] == [True] * ("vad_parameters" in code)
        said.append(capsys.readouterr().out)
    assert len(examples) >= 6
    assert [call[0] for call in loads] == ["large-v3", "turbo", "distil-large-v3"]
    batched = next(out for code, out in zip(examples, said, strict=True) if "Batched" in code)
    # Its speaker begins after 1.2 s.
    assert re.fullmatch(r"\[1\.[12]\ds -> [12]\.\d\ds\]  The best time.*\n", batched)
    assert (loads[0][1]["provider"], loads[0][1]["precision"]) == ("cuda", "fp16")
    first = said[0].splitlines()
    assert first[0] == "Detected language 'en' with probability 1.000000"
    assert re.fullmatch(r"\[\d+\.\d\ds -> \d+\.\d\ds\]  The best time.*", first[1])
    words = next(out for code, out in zip(examples, said, strict=True) if "segment.words" in code).splitlines()
    assert [word.split()[-1] for word in words][:3] == ["The", "best", "time"]


@pytest.mark.slow
def test_the_segments_are_those_of_faster_whisper(
    tmp_path: Path, model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    import faster_whisper as original

    believe_as_openai(monkeypatch)
    folder = ct2_folder(own_nano(tmp_path / "nano"), tmp_path / "converted")
    audio = load_audio(CLIP)
    asked: dict[str, Any] = {"word_timestamps": True, "temperature": 0.0, "beam_size": 1, "language": "en"}
    expected, expected_info = original.WhisperModel(str(folder), device="cpu", cpu_threads=1).transcribe(audio, **asked)
    segments, info = model.transcribe(audio, **asked)
    assert info.duration == pytest.approx(expected_info.duration)
    for ours, other in zip(list(segments), list(expected), strict=True):
        assert (ours.id, ours.seek, ours.text, ours.tokens) == (other.id, other.seek, other.text, other.tokens)
        assert [ours.start, ours.end] == pytest.approx([other.start, other.end], abs=0.05)
        assert ours.avg_logprob == pytest.approx(other.avg_logprob, abs=0.01)
        assert [word.word for word in ours.words or ()] == [word.word for word in other.words]


# --- what is its own -------------------------------------------------------------------------------------------------


def test_segments_are_decoded_as_they_are_asked_for(model: WhisperModel, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def windows(*_: object, **__: object) -> Iterator[OfflineSegment]:
        for number in range(3):
            decoded.append(number)
            span = Span(number * SAMPLE_RATE, (number + 1) * SAMPLE_RATE)
            yield OfflineSegment(number, span, " word", (7,), (), -0.1, 1.0, 0.0, 0.0, "en", window=32_000)

    monkeypatch.setattr(faster_whisper, "transcribe_heard", windows)
    segments, info = model.transcribe(np.zeros(3 * SAMPLE_RATE, np.float32))
    assert (decoded, info.duration) == ([], 3.0)
    first = next(segments)
    assert decoded == [0]
    assert (first.id, first.seek, first.start, first.end, first.tokens, first.words) == (1, 200, 0.0, 1.0, [7], None)
    assert [segment.id for segment in segments] == [2, 3]


def test_an_empty_array_has_no_segments(model: WhisperModel) -> None:
    segments, info = model.transcribe(np.zeros(0, np.float32))
    assert (list(segments), info.duration) == ([], 0.0)
    with pytest.raises(AudioError):
        model.transcribe("no such file.wav")


def test_pauses_that_the_gate_leaves_out_do_not_count(model: WhisperModel) -> None:
    speech = load_audio(CLIP)
    silent = np.concatenate([speech, np.zeros(20 * SAMPLE_RATE, np.float32)])
    info = model.transcribe(silent, vad_filter=True)[1]
    assert info.duration == pytest.approx(len(silent) / SAMPLE_RATE)
    assert info.duration - info.duration_after_vad > 15
    assert model.transcribe(silent)[1].duration_after_vad == info.duration


def test_audio_that_breaks_off_is_transcribed_with_a_warning(model: WhisperModel, tmp_path: Path) -> None:
    cut = tmp_path / "cut.flac"
    cut.write_bytes(CLIP.read_bytes()[:-4_000])
    with pytest.warns(UserWarning, match="cut"):
        info = model.transcribe(str(cut), beam_size=1)[1]
    assert 0 < info.duration < len(load_audio(CLIP)) / SAMPLE_RATE


def test_a_bar_is_shown_on_request(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def windows(*_: object, progress: Any, **__: object) -> Iterator[OfflineSegment]:
        progress(16_000, 16_000)
        yield from ()

    monkeypatch.setattr(faster_whisper, "transcribe_heard", windows)
    list(model.transcribe(np.zeros(SAMPLE_RATE, np.float32), log_progress=True)[0])
    said = capsys.readouterr()
    assert "100%" in said.err
    assert said.out == ""


def test_no_window_of_the_pipeline_is_told_what_was_said_before(
    model: WhisperModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[Any, DecodeOptions]] = []

    def windows(_: object, recording: Any, options: DecodeOptions, **__: object) -> Iterator[OfflineSegment]:
        heard.append((recording.voice, options))
        word = Word(" word", 0, SAMPLE_RATE, 0.9)
        yield OfflineSegment(0, Span(0, SAMPLE_RATE), " word", (7,), (word,), -0.1, 1.0, 0.0, 0.0, "en")

    monkeypatch.setattr(faster_whisper, "transcribe_heard", windows)
    pipeline = BatchedInferencePipeline(model=model)
    (segment,), _ = pipeline.transcribe(np.zeros(3 * SAMPLE_RATE, np.float32), batch_size=16)
    (spoken,), _ = pipeline.transcribe(np.zeros(3 * SAMPLE_RATE, np.float32), vad_filter=False, word_timestamps=True)
    assert [options.condition_on_previous_text for _, options in heard] == [False, False]
    assert [options.timestamps for _, options in heard] == [False, False]
    assert [voice is None for voice, _ in heard] == [False, True]
    assert segment.words is None
    assert [word.word for word in spoken.words or ()] == [" word"]
    with pytest.raises(OptionError, match="cut the samples"):
        pipeline.transcribe(np.zeros(100, np.float32), clip_timestamps=[{"start": 0, "end": 1}])


def test_what_the_pipeline_does_not_use_there_it_does_not_use_here(model: WhisperModel) -> None:
    """Which their docstring lists as unused; `WhisperModel.transcribe` refuses them."""
    unused: dict[str, Any] = {
        "condition_on_previous_text": True,
        "prompt_reset_on_temperature": 0.2,
        "prefix": "And so",
        "hallucination_silence_threshold": 2.0,
        "max_initial_timestamp": 0.5,
    }
    audio = np.zeros(100, np.float32)
    segments, info = BatchedInferencePipeline(model).transcribe(audio, **unused)
    assert list(segments) == []
    asked = info.transcription_options
    assert {name: getattr(asked, name) for name in unused} == {
        "condition_on_previous_text": False,
        "prompt_reset_on_temperature": 0.5,
        "prefix": "And so",
        "hallucination_silence_threshold": None,
        "max_initial_timestamp": 0.0,
    }
    for name in unused.keys() - {"condition_on_previous_text", "max_initial_timestamp"}:
        with pytest.raises(OptionError, match=name):
            model.transcribe(audio, **{name: unused[name]})


def test_the_pipeline_uses_the_first_temperature_alone(model: WhisperModel, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[DecodeOptions] = []

    def windows(*asked: Any, **_: object) -> Iterator[OfflineSegment]:
        used.append(asked[2])
        yield from ()

    monkeypatch.setattr(faster_whisper, "transcribe_heard", windows)
    audio = np.zeros(SAMPLE_RATE, np.float32)
    reported = []
    for asked in ({}, {"temperature": [0.2, 0.4]}, {"temperature": 0.4}, {"max_initial_timestamp": 0.5}):
        segments, info = BatchedInferencePipeline(model).transcribe(audio, **asked)
        list(segments)
        reported.append(list(info.transcription_options.temperatures))
    assert [options.temperatures for options in used] == [(0.0,), (0.2,), (0.4,), (0.0,)]
    assert reported == [[0.0], [0.2], [0.4], [0.0]]
    assert used[-1].max_initial_timestamp == 1.0


@pytest.mark.filterwarnings("ignore:vad_parameters")
def test_the_settings_of_the_voice_filter_are_reported_as_there(model: WhisperModel) -> None:
    """Theirs: the defaults where the filter is used, and in the pipeline those of its windows."""
    audio, own = np.zeros(SAMPLE_RATE, np.float32), {"min_silence_duration_ms": 500, "max_speech_duration_s": 9}
    value = compat.VadOptions(threshold=0.4)
    usual = [model.transcribe(audio, vad_filter=used)[1].vad_options for used in (False, True)]
    assert usual == [None, compat.VadOptions()]
    assert model.transcribe(audio, vad_filter=True, vad_parameters=own)[1].vad_options == compat.VadOptions(**own)
    transcribe = BatchedInferencePipeline(model).transcribe
    reported = [transcribe(audio, vad_parameters=given)[1].vad_options for given in (None, own, value)]
    assert reported == [
        compat.VadOptions(max_speech_duration_s=30, min_silence_duration_ms=160),
        compat.VadOptions(max_speech_duration_s=30, min_silence_duration_ms=500),
        value,
    ]
    assert transcribe(audio, vad_filter=False)[1].vad_options is None


def test_what_every_window_is_shown(model: WhisperModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in faster-whisper: the hotwords, and of the pipeline the prompt, too."""
    shown: list[tuple[str, str]] = []

    def windows(*asked: Any, lasting: str, **_: object) -> Iterator[OfflineSegment]:
        shown.append((lasting, asked[2].prompt))
        yield from ()

    monkeypatch.setattr(faster_whisper, "transcribe_heard", windows)
    audio, tokens = np.zeros(SAMPLE_RATE, np.float32), nano().tokenizer.encode(" A letter.")
    prompts: list[dict[str, Any]] = [{"hotwords": "Ebbe, Flut"}, {"initial_prompt": tokens}, {}]
    infos = []
    for transcribe in (model.transcribe, BatchedInferencePipeline(model).transcribe):
        for asked in [*prompts, prompts[0] | prompts[1]]:
            segments, info = transcribe(audio, **asked)
            list(segments)
            infos.append(info.transcription_options)
    assert shown[:4] == [("Ebbe, Flut", ""), ("", "A letter."), ("", ""), ("Ebbe, Flut", "A letter.")]
    assert shown[4:] == [("Ebbe, Flut", ""), ("A letter.", ""), ("", ""), ("Ebbe, Flut A letter.", "")]
    assert [(info.hotwords, info.initial_prompt) for info in infos] == 2 * [
        ("Ebbe, Flut", None),
        (None, tokens),
        (None, None),
        ("Ebbe, Flut", tokens),
    ]


@pytest.mark.slow
def test_without_timestamps_nothing_after_a_sentence_is_lost(model: WhisperModel) -> None:
    """Only word times tell what a text that closed early has left out."""
    speech = load_audio(CLIP)
    again = np.concatenate([speech, np.zeros(SAMPLE_RATE, np.float32), speech])
    text = "".join(segment.text for segment in BatchedInferencePipeline(model).transcribe(again, beam_size=1)[0])
    assert text.lower().count("the best time") == 2, text


# --- loading ---------------------------------------------------------------------------------------------------------


def test_settings_become_ours(loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    WhisperModel("base", device="cpu", compute_type="int8_float32", cpu_threads=3, revision="main", device_index=[0])
    WhisperModel("small")
    assert loads[0] == ("base", {"precision": "int8", "provider": "cpu", "threads": 3, "revision": "main"})
    assert loads[1][0] == str(tmp_path / "small"), "a folder comes before a name"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"device": "tpu"}, "expected a device among"),
        ({"compute_type": "int16"}, "expected a compute type among"),
        ({"device_index": 1}, "CUDA_VISIBLE_DEVICES"),
        ({"files": {}}, "write them to a folder"),
        ({"use_auth_token": "hf_secret"}, "HF_TOKEN"),
    ],
)
def test_settings_that_cannot_be_served_are_refused(loads: Loads, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said) as caught:
        WhisperModel("base", **settings)
    assert "hf_secret" not in str(caught.value)
    assert loads == []


@pytest.mark.parametrize(
    ("settings", "said"), [({"download_root": "m"}, "HF_HUB_CACHE"), ({"flash_attention": True}, "flash_attention")]
)
def test_settings_without_effect_are_warned_of(loads: Loads, settings: dict[str, Any], said: str) -> None:
    with pytest.warns(UserWarning, match=said):
        WhisperModel("base", **settings)
    assert len(loads) == 1


def test_local_files_only(loads: Loads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointNotFoundError, match="not on this machine"):
        WhisperModel("someone/never-seen", local_files_only=True)
    WhisperModel("nano.en", local_files_only=True)
    assert [call[0] for call in loads] == ["nano.en"]


# --- languages -------------------------------------------------------------------------------------------------------


def test_an_english_model(model: WhisperModel) -> None:
    assert (model.is_multilingual, model.supported_languages) == (False, ["en"])
    with pytest.warns(UserWarning, match="supports only English: language='de' has no effect"):
        info = model.transcribe(np.zeros(100, np.float32), language="de")[1]
    assert (info.language, info.language_probability, info.all_language_probs) == ("en", 1.0, None)
    with pytest.raises(OptionError, match="translate"):
        model.transcribe(np.zeros(100, np.float32), task="translate")
    with pytest.raises(UnknownLanguageError, match="expected a multilingual model"):
        model.detect_language(np.zeros(100, np.float32))


@pytest.fixture
def polyglot(monkeypatch: pytest.MonkeyPatch) -> WhisperModel:
    """A model that hears German, French and German in its first windows, less and less doubtfully."""
    heard = iter(
        [
            DetectedLanguage("de", 0.3, {"en": 0.2, "de": 0.3}),
            DetectedLanguage("fr", 0.4, {"fr": 0.4, "de": 0.3}),
            DetectedLanguage("de", 0.6, {"de": 0.6, "en": 0.1}),
        ]
    )
    monkeypatch.setattr(faster_whisper, "detect_language", lambda *_: next(heard))
    model = WhisperModel.__new__(WhisperModel)
    tokenizer = SimpleNamespace(
        languages=("en", "de", "fr"), language=str, decode=lambda _: "", sot_sequence=lambda *_: ()
    )
    stub: Any = SimpleNamespace(
        dims=SimpleNamespace(is_multilingual=True, n_mels=80), tokenizer=tokenizer, model=SimpleNamespace(encode=len)
    )
    model.transcriber = stub
    return model


MINUTE = np.zeros(70 * SAMPLE_RATE, np.float32)


def test_the_language_is_detected_before_the_first_segment(polyglot: WhisperModel) -> None:
    assert polyglot.supported_languages == ["en", "de", "fr"]
    info = polyglot.transcribe(MINUTE)[1]
    assert (info.language, info.language_probability) == ("de", 0.3)
    assert info.all_language_probs == [("de", 0.3), ("en", 0.2)]
    assert polyglot.transcribe(MINUTE, language="fr")[1].language_probability == 1.0


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"language_detection_segments": 3}, ("de", 0.6)),  # the first that is probable enough
        ({"language_detection_segments": 3, "language_detection_threshold": 0.9}, ("de", 0.6)),  # what most are
        ({"language_detection_segments": 2}, ("de", 0.3)),
        ({"language_detection_threshold": 0.1}, ("de", 0.3)),
    ],
)
def test_windows_that_a_language_is_detected_in(
    polyglot: WhisperModel, asked: dict[str, Any], found: tuple[str, float]
) -> None:
    language, probability, shares = polyglot.detect_language(MINUTE, **asked)
    assert (language, probability) == found
    assert shares[0] == found


def test_features_are_refused(polyglot: WhisperModel) -> None:
    with pytest.raises(OptionError, match="expected audio, samples at 16 kHz; got features"):
        polyglot.detect_language(features=np.zeros((80, 3000), np.float32))
