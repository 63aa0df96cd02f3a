"""Networks of every kind hear whole commands; late ones say what they say where they run."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch

from small_late import SOUND, TEXTS, small_late
from whispertide.errors import CheckpointError
from whispertide.understand.checkpoint import LateCheckpoint
from whispertide.understand.ctc_attention import ctc_attention_search
from whispertide.understand.model import LateModel
from whispertide.understand.understanding import _Scorer
from whispertide_lab.training.latecontext.accuracy import Answer, Listener
from whispertide_lab.training.latecontext.folder import save_late
from whispertide_lab.training.latecontext.intent_words import learn_intents
from whispertide_lab.training.latecontext.network import tensors_of
from whispertide_lab.training.latecontext.run import make_network
from whispertide_lab.training.latecontext.understood import around
from whispertide_lab.training.shards import Utterance

pytestmark = pytest.mark.slow

Rival = Literal["branchformer", "conformer", "rnnt"]
SAID = Utterance((20_000 * SOUND).astype(np.int16), "play some music", "noise", None, intent="play_music")


def network(kind: Rival) -> LateCheckpoint:
    late = small_late()
    torch.manual_seed(3)
    dims = replace(late.dims, kind=kind)
    return replace(late, dims=dims, tensors=tensors_of(make_network(dims, 0.0)))


@pytest.mark.parametrize("kind", ["branchformer", "conformer", "rnnt"])
def test_rivals_are_heard(kind: Rival, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(network(kind))
    tokens, first = listener.tokens(around(SAID))
    assert (first is None) == (kind == "rnnt")
    assert all(0 <= token < listener.checkpoint.dims.n_vocab for token in tokens)
    alarm = listener.checkpoint.vocabulary.intent("alarm_set")
    assert alarm is not None
    said = [alarm, *listener.checkpoint.vocabulary.encode("play the music")]
    monkeypatch.setattr(listener, "tokens", lambda samples: (said, first))
    assert listener.hear(SAID) == Answer(errors=1, words=3, right=False)


def test_rivals_name_the_intent_that_the_words_have(monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(replace(network("rnnt"), intent_words=learn_intents(TEXTS[:2], (1, 0), 2)))
    said = listener.checkpoint.vocabulary.encode("play some music")
    monkeypatch.setattr(listener, "tokens", lambda samples: (said, None))
    assert listener.hear(SAID) == Answer(errors=0, words=3, right=True)


def test_a_late_network_says_in_torch_what_it_says_in_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPERTIDE_CACHE", str(tmp_path / "cache"))
    save_late(small_late(), tmp_path / "late")
    model = LateModel.open(tmp_path / "late")
    listener = Listener(model.checkpoint)
    tokens, first = listener.tokens(around(SAID))
    assert tokens, "a network that says nothing would show nothing"

    context = model.contextualise(model.ingest(model.nothing(), around(SAID), ended=True))
    found = ctc_attention_search(context.ctc.astype("float64"), _Scorer(model, context), listener.search)
    assert tokens == list(found.best.tokens)
    assert first is not None
    assert np.allclose(first, found.first, atol=1e-4)


def test_weights_of_another_shape_are_told() -> None:
    with pytest.raises(CheckpointError, match="shape"):
        Listener(replace(small_late(), dims=replace(small_late().dims, attending=3)))
