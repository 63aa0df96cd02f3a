"""Settings of policies that hear a window in one decode, watched by its attention. Times in seconds."""

from dataclasses import dataclass, field, replace
from typing import Any

from whispertide.decoding.token_words import WordTimes
from whispertide.methods.attention.single_pass import SinglePass
from whispertide.streaming.choice import setting
from whispertide.streaming.policy import Bounded
from whispertide.types import CHUNK_SECONDS, to_samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Attending(Bounded):
    """Settings that these policies share. `hearing` is how rounds are transcribed, but for what watches them."""

    max_tokens: int = setting(224, "most tokens of a round", least=1, most=400)
    context_tokens: int = setting(
        223, "text before the window in the prompt (0 = none, not even the user's prompt)", least=0, most=400
    )
    static_prompt: bool = setting(
        True, "whether the user's prompt stays in front of that text; else it is dropped as the text grows"
    )
    word_times: WordTimes = setting(
        "dtw",
        '"dtw", "attended" (the strongest attention of the first and last token), or "checked": "dtw" unless '
        "that puts a word long before the audio it attends to",
    )

    hearing: SinglePass = field(init=False, repr=False, compare=False)

    def derive(self) -> dict[str, Any]:
        """The settings as the decode takes them."""
        return {
            "hearing": SinglePass(
                no_speech=self.no_speech,
                loop_guard=self.loop_guard,
                max_tokens=self.max_tokens,
                context_tokens=self.context_tokens,
                static_prompt=self.static_prompt,
                times=self.word_times,
            )
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AttendingEnds(Attending):
    """Settings of those that hear the last window of an utterance in another way than the others."""

    silence_s: float = setting(
        0.0, "silence after the last window of an utterance, so that its text can end", least=0, most=CHUNK_SECONDS
    )
    short_s: float = setting(
        0.0,
        "the last window of an utterance up to this length, with the pause before it, is padded to 30 s (0 = never)",
        least=0,
        most=CHUNK_SECONDS,
    )

    def derive(self) -> dict[str, Any]:
        """The settings as the decode takes them."""
        hearing = Attending.derive(self)["hearing"]
        return {"hearing": replace(hearing, silence=to_samples(self.silence_s), short=to_samples(self.short_s))}
