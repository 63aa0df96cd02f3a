"""What a model says of short windows, next to what it said of the same ones padded to 30 s.

Needs no torch. Knows nothing of training.
"""

from collections.abc import Sequence

import numpy as np

from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import build_rules
from whispertide.model.whisper import WhisperModel
from whispertide.options import DecodeOptions
from whispertide.streaming.framing import BARE, Framing
from whispertide.tuning.framing_choice import differences, plain_words
from whispertide_lab.evaluation.clips import limit
from whispertide_lab.training.short_lessons import Lesson, bare_mel, search


def compare(model: WhisperModel, lessons: Sequence[Lesson], framing: Framing = BARE) -> dict[str, float]:
    """Counts over the lessons, heard in that framing: windows, texts that do not end, the teacher's words, those heard
    otherwise or not at all, and words added. What does not end has no words that could be compared.
    """
    counts = {"windows": len(lessons), "endless": 0, "words": 0, "changed": 0, "added": 0}
    tokenizer = model.tokenizer
    rules = {stamped: build_rules(model, DecodeOptions(timestamps=stamped)) for stamped in (False, True)}
    for lesson in lessons:
        tokens = tuple(lesson.tokens.tolist())
        first = int(np.argmax(lesson.targets >= 0)) + 1  # tokens that the decoder is given before it speaks
        prompt = Prompt(tokens[:first], tokens.index(tokenizer.sot), limit(len(lesson.samples)))
        encoded = framing(model, bare_mel(lesson.samples, model.dims.n_mels))
        best = search(model, encoded, prompt, rules[tokenizer.no_timestamps not in prompt.tokens]).best
        if best.stop != "end_of_text":
            counts["endless"] += 1
            continue
        right = [token for token in lesson.targets.tolist() if token >= 0]
        asked, heard = (plain_words(tokenizer.decode(said)) for said in (right, best.tokens))
        changed, added = differences(asked, heard)
        counts["words"] += len(asked)
        counts["changed"] += changed
        counts["added"] += added
    return dict(counts)
