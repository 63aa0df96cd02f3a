"""A late-contextualisation network on disk: its shape, its weights, its vocabulary (pilot inference, section 4).

A folder with `config.json` (`LateDims`, and what it was trained on), `model.safetensors` and `tokenizer.json`. The
vocabulary has the end of text, one token for each intent, and subwords. What tells the intent by the words is kept with
the weights. Knows nothing of graphs, torch or audio.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from whispertide.checkpoint.names import BUNDLED_DIR
from whispertide.checkpoint.safetensors_file import SafetensorsFile
from whispertide.errors import CheckpointError, CheckpointNotFoundError
from whispertide.types import FloatArray, IntArray
from whispertide.understand.intent_words import IntentWords

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Subwords

Kind = Literal["late", "branchformer", "conformer", "rnnt"]
Arrays = Mapping[str, npt.NDArray[Any]]

FORMAT = "late-context-1"
END = "<end>"
SAMPLES_PER_FRAME = 640  # 40 ms: two convolutions of stride 2 over Whisper's hop of 10 ms
COMMANDS = BUNDLED_DIR / "understand" / "commands"  # the network that the package brings along
_INTENT_WORDS = "intent_words"  # among the tensors of the file
_NAMED = 0.5  # how much the network's own first token counts next to the words; chosen on SLURP's devel sentences
_FILES = ("config.json", "model.safetensors", "tokenizer.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDims:
    """The shape of a network.

    kind        "late": `convolving` layers of gated convolution alone, then `attending` layers of attention alone;
                "branchformer" and "conformer", its rivals, have so many layers in all, each with both; "rnnt" has so
                many of convolution, and a recurrent network for the text. It says the intent last, since it streams
    width       of a frame; `inner` that of the wide parts of a layer
    attending_inner   of layers of attention alone, where it is another; 0: they have no feed-forward part
    kernel      of the convolutions, in frames; they look back only
    decoding    layers of the decoder
    n_vocab     tokens, the end of text among them; the blank of CTC is one more
    """

    kind: Kind = "late"
    width: int = 160
    heads: int = 4
    inner: int = 640
    attending_inner: int | None = None
    kernel: int = 15
    convolving: int = 6
    attending: int = 3
    decoding: int = 1
    n_mels: int = 80
    n_vocab: int = 500

    def __post_init__(self) -> None:
        counts = (self.width, self.heads, self.inner, self.kernel, self.attending, self.decoding, self.n_mels)
        if self.kind not in get_args(Kind) or min(counts) < 1 or self.convolving < 0 or self.n_vocab < 2:
            raise CheckpointError(
                f"expected kind {', '.join(get_args(Kind))}, sizes from 1 and 2 tokens or more; got {asdict(self)}"
            )
        if self.attending_inner is not None and (self.attending_inner < 0 or self.kind != "late"):
            raise CheckpointError(
                "expected attending_inner from 0, and of the kind late alone; got "
                f"{self.attending_inner} for {self.kind}"
            )
        if self.width % self.heads or self.width % 2 or self.inner % 2:
            raise CheckpointError(
                "expected an even width that the heads divide, and an even inner width; got "
                f"{self.width}, {self.heads} and {self.inner}"
            )

    @property
    def after_attention(self) -> int:
        """The inner width of the feed-forward part that follows attention; 0: there is none."""
        return self.inner if self.attending_inner is None else self.attending_inner

    @property
    def layers(self) -> int:
        """Of the encoder."""
        return self.convolving + self.attending

    @property
    def streaming_layers(self) -> int:
        """Those of them that run while somebody speaks; the others need all frames."""
        return {"late": self.convolving, "rnnt": self.layers}.get(self.kind, 0)


class LateVocabulary:
    """Texts and intents as tokens, and back.

    `intents` are tokens 1 to len(intents); token 0 is the end of text.
    """

    def __init__(self, subwords: "Subwords", intents: Sequence[str]) -> None:
        self.subwords, self.intents = subwords, tuple(intents)
        self.size: int = subwords.get_vocab_size()
        self.end = 0
        self._numbers = {intent: number for number, intent in enumerate(self.intents, 1)}

    @property
    def intent_tokens(self) -> IntArray:
        """All of them."""
        return np.arange(1, len(self.intents) + 1)

    def intent(self, name: str) -> int | None:
        """Its token; None where it has none."""
        return self._numbers.get(name)

    def encode(self, text: str) -> list[int]:
        """The tokens of a text alone."""
        tokens: list[int] = self.subwords.encode(text, add_special_tokens=False).ids
        return tokens

    def decode(self, tokens: Sequence[int]) -> tuple[str | None, str]:
        """The intent, the first token that is one, and the text."""
        intent = next((self.intents[token - 1] for token in tokens if 1 <= token <= len(self.intents)), None)
        spoken = [token for token in tokens if token > len(self.intents)]
        text: str = self.subwords.decode(spoken)
        return intent, text.strip()


@dataclass(frozen=True, slots=True)
class Meaning:
    """The intent, the words, and how likely the intent is, 0 to 1; None where that is not known."""

    intent: str | None
    text: str
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class LateCheckpoint:
    """A network that can be run. `report` tells what it was trained on and what that measured.

    intent_words   tells the intent by the words; None: the network's own first token does
    """

    dims: LateDims
    tensors: Arrays
    vocabulary: LateVocabulary
    report: Mapping[str, Any] = field(default_factory=dict)
    intent_words: IntentWords | None = None

    @property
    def content_hash(self) -> str:
        """SHA-256 over the shape and the weights, those of the words too."""
        digest = hashlib.sha256(json.dumps(asdict(self.dims)).encode())
        # In one order, whatever order the file has.
        for _, array in sorted(self.arrays.items()):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def arrays(self) -> Arrays:
        """All that is learned, as the file names it."""
        return self.tensors if self.intent_words is None else {**self.tensors, _INTENT_WORDS: self.intent_words.weights}

    def understood(self, tokens: Sequence[int], first: FloatArray | None = None) -> Meaning:
        """The meaning of a text of `tokens`; `first` [n_vocab] are log probabilities of its first token.

        An intent that was named before the words were known is a guess, so the words decide.
        """
        named, text = self.vocabulary.decode(tokens)
        return self.meaning(text, first) or Meaning(named, text)

    def meaning(self, text: str, first: FloatArray | None = None) -> Meaning | None:
        """The meaning of a `plain` text by its words; None where it has none, or where nothing classifies them."""
        if self.intent_words is None or not text:
            return None
        scores = self.intent_words.scores(text)
        if first is not None:
            scores = scores + _NAMED * first[self.vocabulary.intent_tokens]
        best = int(scores.argmax())
        chance = float(np.exp(scores[best] - np.logaddexp.reduce(scores)))
        return Meaning(self.vocabulary.intents[best], text, chance)


def place_of(folder: Path) -> Path:
    """The network of the package where that is meant."""
    return COMMANDS if str(folder) == COMMANDS.name and not folder.exists() else folder


def is_late(folder: Path) -> bool:
    """True if a folder's files name such a network; it may be damaged all the same."""
    try:
        config = json.loads((place_of(folder) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


def load_late(folder: Path) -> LateCheckpoint:
    """Read such a folder; where there is none of that name, "commands" is the network of the package.

    Raises `CheckpointNotFoundError` where there is none, `CheckpointError` where it is another or damaged.
    """
    folder = place_of(folder)
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise CheckpointNotFoundError(
            f"expected a late-contextualisation network in {folder}; it has no {', '.join(missing)}: "
            f"`whispertide train latecontext` makes one, and {COMMANDS.name} is in the package"
        )
    dims, tensors, vocabulary, report = _read(folder)
    if vocabulary.size != dims.n_vocab:
        raise CheckpointError(f"expected {dims.n_vocab} tokens in {folder / 'tokenizer.json'}; got {vocabulary.size}")
    words = tensors.pop(_INTENT_WORDS, None)
    if words is not None and (words.ndim != 2 or words.shape[1] != len(vocabulary.intents)):
        raise CheckpointError(
            f"expected {_INTENT_WORDS} of shape [rows, {len(vocabulary.intents)}] in {folder}; got {words.shape}"
        )
    return LateCheckpoint(dims, tensors, vocabulary, report, None if words is None else IntentWords(words))


def _read(folder: Path) -> tuple[LateDims, dict[str, FloatArray], LateVocabulary, Mapping[str, Any]]:
    """Read its files, the report last; that they go together is not checked."""
    from tokenizers import Tokenizer

    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if config.get("format") != FORMAT:
            raise CheckpointError(
                f"expected a network of `whispertide train latecontext`, such as {COMMANDS.name}: format {FORMAT} in "
                f"{folder / 'config.json'}; got {config.get('format')!r}"
            )
        dims = LateDims(**config["dims"])
        weights = SafetensorsFile(folder / "model.safetensors")
        tensors = {name: weights.read(name).astype(np.float32) for name in weights.tensors}
        vocabulary = LateVocabulary(
            Tokenizer.from_str((folder / "tokenizer.json").read_text("utf-8")), config["intents"]
        )
        return dims, tensors, vocabulary, config.get("report", {})
    except CheckpointError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{folder} is damaged ({error}); make it again, or copy it again") from error
    except Exception as error:  # `tokenizers` raises nothing more special
        raise CheckpointError(f"{folder / 'tokenizer.json'} is damaged ({error})") from error
