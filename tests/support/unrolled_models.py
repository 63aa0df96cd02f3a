"""A small random model with its unrolled graphs, and windows to decode: what the tests of unrolled decoding share."""

from dataclasses import dataclass, replace
from pathlib import Path

from random_models import MINI, random_whisper, speechlike
from whispertide.decoding.accept import GREEDY
from whispertide.decoding.prompt import Prompt, build_prompt
from whispertide.decoding.rules import Rules, build_rules
from whispertide.decoding.search import Guard, SearchResult, run_search
from whispertide.decoding.token_search import TokenSearch
from whispertide.graphs.store import GraphFiles
from whispertide.model.engine import Encoded
from whispertide.model.onnx_engine import OnnxEngine
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions, EngineOptions
from whispertide_lab.npu import export
from whispertide_lab.npu.chunks import UnrolledLayout
from whispertide_lab.npu.engine import StaticEngine

OPTIONS = DecodeOptions(timestamps=False)


@dataclass(frozen=True)
class Pair:
    """A model, and its unrolled graphs."""

    model: WhisperModel
    unrolled: StaticEngine
    folder: Path

    @property
    def rules(self) -> Rules:
        return build_rules(self.model, OPTIONS)

    def prompt(self, *prefix: int) -> Prompt:
        context = self.model.dims.n_text_ctx
        return build_prompt(self.model.tokenizer, context, OPTIONS, language=None, prefix=prefix)

    def window(self, seed: int, frames: int = 50, valid: int = 50) -> Encoded:
        return self.model.encode(speechlike(seed, frames), valid_frames=valid)

    def greedy(self, encoded: Encoded, prompt: Prompt, guards: tuple[Guard, ...] = ()) -> SearchResult:
        """Of at most 40 tokens: no graph here gets so far."""
        limited = replace(prompt, limit=min(prompt.limit, 40))
        return run_search(TokenSearch(limited, self.rules, GREEDY, guards=guards), self.model.decoder(encoded))


def random_pair(folder: Path, layout: UnrolledLayout) -> Pair:
    """Random weights of a small shape, peaked attention, fp32. What comes next depends on what was said."""
    checkpoint = random_whisper(folder / "mini", MINI, embedding=0.1)
    (folder / "unrolled").mkdir()
    options = EngineOptions(precision="fp32", provider="cpu", threads=1)
    model = WhisperModel(checkpoint, OnnxEngine(GraphFiles(checkpoint, "fp32", folder), options))
    export.build(checkpoint, "fp32", folder / "unrolled", layout, encoder=True)
    return Pair(model, StaticEngine(folder / "unrolled", checkpoint, options), folder / "unrolled")
