"""What an offramp of a network for commands learns from: each command's last text, and whether its intent was wrong.

The small networks and their training are those for Whisper (`training.offramp`). There a text went wrong by its words;
here the intent is what counts (pilot inference, arXiv 2311.17065, sections 5 and 7.4). Needs torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from whispertide.errors import CorpusError
from whispertide.methods.pilot.pilot import Scores
from whispertide.understand.model import LateModel
from whispertide_lab.speech.noise import to_int16
from whispertide_lab.training.latecontext.understood import AT_PAUSES, WAYS, hear
from whispertide_lab.training.offramp import Example, Kept, OfframpOptions, varied
from whispertide_lab.training.shards import Utterance


def hear_commands(model: LateModel, said: Sequence[Utterance], options: OfframpOptions) -> Iterator[Example | None]:
    """Each command, changed by dice of its own, as from a microphone; None for one in which no text was found.

    An example's one word is the intent. Raises `CorpusError` where there is none.
    """
    if not said:
        raise CorpusError("expected commands with intents, as `whispertide train commands` makes them; got none")
    for utterance, samples in varied(said, options):
        kept, spoken = Kept(), replace(utterance, samples=to_int16(samples.astype(np.float64)), words=None)
        heard = hear(model, spoken, WAYS[AT_PAUSES], kept)
        if kept.states is None:
            yield None
            continue
        yield Example(Scores(kept.logprobs), kept.states.astype(np.float16), errors=int(not heard.right), words=1)
