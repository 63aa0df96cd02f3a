"""A trained network as a new folder, which `whispertide.understand.checkpoint` reads, and the vocabulary that it gets.
Needs no torch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from whispertide.atomic import replacing, writing
from whispertide.understand.checkpoint import END, FORMAT, LateCheckpoint, LateVocabulary
from whispertide_lab.safetensors_header import header_of


def learn_vocabulary(texts: Sequence[str], intents: Sequence[str], size: int) -> LateVocabulary:
    """Subwords by byte-pair encoding of these texts (`tokenizers`), `size` tokens in all."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    subwords = Tokenizer(models.BPE(unk_token=None))
    subwords.pre_tokenizer = pre_tokenizers.Metaspace()
    subwords.decoder = decoders.Metaspace()
    known = sorted(set(intents))
    special = [END, *(f"<{intent}>" for intent in known)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    subwords.train_from_iterator(texts, trainer)
    return LateVocabulary(subwords, known)


def save_late(checkpoint: LateCheckpoint, folder: Path) -> None:
    """Write it as a new folder, whole or not at all, weights as fp16. Raises `OutputError`."""
    config = {"format": FORMAT, "dims": asdict(checkpoint.dims), "intents": list(checkpoint.vocabulary.intents)}
    tensors = {name: np.ascontiguousarray(array, np.float16) for name, array in checkpoint.arrays.items()}
    with writing(folder, "choose a new folder, or make room"), replacing(folder) as unfinished:
        unfinished.mkdir(parents=True)
        shapes = {name: (array.shape, array.dtype) for name, array in tensors.items()}
        weights = [header_of(shapes, {}), *(array.tobytes() for array in tensors.values())]
        (unfinished / "model.safetensors").write_bytes(b"".join(weights))
        # As text: by a path the library takes no name that is not UTF-8.
        subwords = checkpoint.vocabulary.subwords.to_str(pretty=True)
        (unfinished / "tokenizer.json").write_text(subwords, encoding="utf-8")
        text = json.dumps(config | {"report": dict(checkpoint.report)}, indent=2)
        (unfinished / "config.json").write_text(text + "\n", encoding="utf-8")
