"""How unrolled decoding is cut: which positions each chunk graph feeds, for which length of audio, in which file.

A static graph fixes every shape, so the decoder of K steps at one position is a graph of its own. Two plans share all
graphs but the first two: one for the bare start sequence, one with room for a forced word after it (NPUsper, arXiv
2607.01108, "controlled unrolling"; both have fed ten tokens after two chunks). A folder of such graphs says in its
manifest what it holds. No ONNX here, and nothing of how chunks are run.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whispertide.checkpoint import Checkpoint
from whispertide.checkpoint.mask import WINDOW
from whispertide.errors import GraphError, OptionError
from whispertide.types import BUCKET_SECONDS, FRAME_SAMPLES, SAMPLE_RATE

PLANS = ((4, 6, 5, 5, 5, 5), (6, 4, 5, 5, 5, 5))  # tokens fed per chunk
MASKED = -1e3  # in place of minus infinity: nothing is left of a score, and 16 bits still tell the others apart
DUMMY = 1  # cache positions in front that are never attended to, so that no graph has an empty cache
MANIFEST = "manifest.json"
FORMAT = 1

Plan = tuple[int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Chunk:
    """One graph: `length` tokens after `start` others.

    The first `block` of them are known beforehand and go in at once (the start sequence); each further one is either
    forced or the likeliest token of the step before.
    """

    start: int
    length: int
    block: int = 1

    @property
    def steps(self) -> int:
        """Tokens that it predicts: one after the block, one after each token after it."""
        return self.length - self.block + 1

    @property
    def end(self) -> int:
        """Tokens that have been fed when it is done."""
        return self.start + self.length


def chunks_of(plan: Plan, block: int) -> tuple[Chunk, ...]:
    """The chunks of a plan whose first one begins with a block of that many tokens."""
    starts = [sum(plan[:number]) for number in range(len(plan))]
    return tuple(
        Chunk(start, length, 1 if number else block)
        for number, (start, length) in enumerate(zip(starts, plan, strict=True))
    )


def frames_of(bucket_seconds: int) -> int:
    """Encoder frames of that many seconds."""
    return bucket_seconds * SAMPLE_RATE // FRAME_SAMPLES


@dataclass(frozen=True, slots=True)
class UnrolledLayout:
    """What a set of unrolled graphs covers.

    block    tokens of the start sequence: what every prompt begins with
    plans    tokens fed per chunk, in the order of preference
    buckets  lengths of audio, in seconds

    Raises `OptionError` for plans that do not hold the block, or buckets that are no length of a window.
    """

    block: int
    plans: tuple[Plan, ...] = PLANS
    buckets: tuple[int, ...] = BUCKET_SECONDS

    def __post_init__(self) -> None:
        if not self.plans or any(not plan or min(plan) < 1 or plan[0] < self.block for plan in self.plans):
            raise OptionError(
                f"expected plans of chunk lengths from 1 up, the first at least the {self.block} tokens of the start "
                f"sequence; got {self.plans}"
            )
        if not self.buckets or any(not 1 <= frames_of(bucket) <= WINDOW for bucket in self.buckets):
            raise OptionError(f"expected buckets from 1 to 30 whole seconds; got {self.buckets}")

    def __str__(self) -> str:
        plans = "_".join("-".join(map(str, plan)) for plan in self.plans)
        return f"{plans}-{'-'.join(map(str, self.buckets))}s"

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Every chunk of every plan, once."""
        return tuple(sorted({chunk for plan in self.plans for chunk in chunks_of(plan, self.block)}))

    def plan(self, known: int) -> tuple[Chunk, ...]:
        """The chunks for a prompt of `known` tokens: of the first plan whose opening holds them all, else the last."""
        fitting = (plan for plan in self.plans if plan[0] >= known)
        return chunks_of(next(fitting, self.plans[-1]), self.block)

    def bucket(self, frames: int) -> int:
        """The shortest bucket, in encoder frames, that holds so many. Raises `OptionError` when none does."""
        lengths = sorted(frames_of(bucket) for bucket in self.buckets)
        fitting = next((length for length in lengths if length >= frames), None)
        if fitting is None:
            raise OptionError(f"expected at most {lengths[-1]} frames, the longest bucket; got {frames}")
        return fitting


def layout_for(
    checkpoint: Checkpoint, *, plans: Sequence[Plan] = PLANS, buckets: Sequence[int] = BUCKET_SECONDS
) -> UnrolledLayout:
    """The layout of graphs for this checkpoint, whose start sequence is the block that every prompt begins with."""
    return UnrolledLayout(len(start_sequence(checkpoint)), tuple(plans), tuple(buckets))


def start_sequence(checkpoint: Checkpoint) -> tuple[int, ...]:
    """What an English prompt begins with: start, language and task where there are languages, no timestamps."""
    return checkpoint.tokenizer.sot_sequence(None, "transcribe", False)


def decoder_name(frames: int, chunk: Chunk) -> str:
    """The graph, and file without ".onnx", of a chunk over so many encoder frames."""
    return f"decoder-{frames:04d}-{chunk.start:02d}-{chunk.end:02d}"


def encoder_name(frames: int) -> str:
    """The graph, and file without ".onnx", of the encoder of so many frames."""
    return f"encoder-{frames:04d}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `manifest.json` of a folder of static graphs says.

    content_hash   of the checkpoint they were made from
    shape          n_vocab, n_text_layer, n_text_head, n_text_state, n_mels
    details        everything else, for readers outside this program: tokens, and all inputs and outputs by graph
    """

    model: str
    content_hash: str
    precision: str
    layout: UnrolledLayout
    shape: Mapping[str, int]
    details: Mapping[str, Any]

    def write(self, folder: Path) -> None:
        """Put it into `folder`."""
        content = {
            "format": FORMAT,
            "model": self.model,
            "content_hash": self.content_hash,
            "precision": self.precision,
            "shape": dict(self.shape),
            "start_tokens": self.layout.block,
            "plans": [list(plan) for plan in self.layout.plans],
            "buckets_s": list(self.layout.buckets),
            **self.details,
        }
        (folder / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a folder. Raises `GraphError` where there is none, or it is damaged or of another format."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise GraphError(f"expected format {FORMAT} in {path}; got {content['format']}: export the model again")
        layout = UnrolledLayout(
            content["start_tokens"], tuple(tuple(plan) for plan in content["plans"]), tuple(content["buckets_s"])
        )
        return Manifest(
            content["model"], content["content_hash"], content["precision"], layout, content["shape"], content
        )
    except FileNotFoundError as error:
        raise GraphError(
            f"expected a folder of unrolled graphs with a {MANIFEST}; {folder} has none: make it with "
            "`whispertide export npu`"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        # It is a ValueError, too: a layout in the file that is none.
        if isinstance(error, OptionError):
            raise GraphError(f"{path} is damaged ({error}): export the model again") from error
        raise GraphError(f"{path} is damaged ({type(error).__name__}: {error}): export the model again") from error
