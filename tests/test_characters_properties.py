"""Nothing that is written ever ends inside a character: words of a decode, events, subtitles, and every protocol.

Whisper's tokens are bytes, so most characters of other scripts are several tokens, and a decode may stop between any
two. What users take for one character may be several in Unicode, too: a consonant with its vowel signs, a family of
emoji.
"""

import json
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from few_examples import quick
from scripted_model import multilingual
from whispertide.checkpoint.languages import apart
from whispertide.decoding.search import Hypothesized
from whispertide.decoding.token_words import Sampled, TokenWord, read_words, tokens_of
from whispertide.events import Confirmed, End, Hypothesis, TurnEnd, from_dict, to_dict
from whispertide.formats.document import Document, segment_words
from whispertide.formats.subtitles import cues
from whispertide.server.protocols import ROUTES
from whispertide.server.protocols.base import WireProtocol
from whispertide.server.protocols.lines import JsonLinesProtocol, TextLinesProtocol
from whispertide.server.protocols.wyoming import WyomingProtocol
from whispertide.types import SAMPLE_RATE, Span, Word, join_words, to_samples
from wire_conversation import Conversation, opening
from wire_messages import SAID

BROKEN = "\ufffd"
EVERY: list[type[WireProtocol]] = [*ROUTES.values(), TextLinesProtocol, JsonLinesProtocol, WyomingProtocol]
# What users take for one character, in each script. Rare ones among them, which are a token for each byte.
CHARACTERS = {
    "ja": ["東", "京", "は", "が", "ッ", "プ", "鱻", "。", "、", "𠮟"],
    "zh": ["我", "们", "的", "龘", "，", "。", "𰻞"],
    "th": ["กำ", "เรา", "น้ำ", "ที่", "ไป", "ๆ", "บ้าน"],
    "hi": ["नि", "क्षे", "हूँ", "मैं", " ", "ज्ञ", "।"],
    "en": ["😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "❤️", " ok", "é", "🏴‍☠️"],
}
LANGUAGES = st.sampled_from(sorted(CHARACTERS))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """A language, a text, and the characters of it."""
    language = draw(LANGUAGES)
    # Of emoji a text has some among words, of other scripts nothing else.
    characters = draw(st.lists(st.sampled_from(CHARACTERS[language]), min_size=1, max_size=30))
    if apart(characters[0], language) != characters[0]:
        characters = [" ", *characters]  # as Whisper begins a text where words have spaces between them
    return language, "".join(characters), characters


def words_of(tokens: list[int], language: str, prefix: tuple[int, ...] = ()) -> tuple[TokenWord, ...]:
    """What a decode of `tokens` after a forced prefix says; the attention walks over the window."""
    queries = 1 + len(prefix) + len(tokens)
    frames = 4 * queries
    attention = np.full((1, queries, frames), 1e-3, np.float32)
    attention[0, np.arange(queries), np.arange(queries) * 4] = 1.0
    found = Hypothesized(tuple(tokens), (-0.1,) * len(tokens), -1.0, attention=(attention,))
    sampled = Sampled.of(found, multilingual(), frames, 1 + len(prefix), prefix)
    return read_words(sampled, multilingual(), Span(0, frames * 320), language=language, times="attended")


def spoken(text: str, language: str, length: int = SAMPLE_RATE) -> list[Word]:
    """The words of a text, as a decode says them, so long that subtitles have to break."""
    words = words_of(multilingual().encode(text), language)
    return [Word(each.word.text, at * length, (at + 1) * length) for at, each in enumerate(words)]


@pytest.mark.slow
@quick(60)
@given(written(), st.data())
def test_words_of_a_decode_that_stops_anywhere_are_whole(text: tuple[str, str, list[str]], data: st.DataObject) -> None:
    language, whole, _ = text
    tokens = multilingual().encode(whole)
    said = join_text(words_of(tokens[: data.draw(st.integers(0, len(tokens)))], language))
    assert whole.startswith(said)


@quick(60)
@given(written(), st.data())
def test_what_is_confirmed_in_several_rounds_is_the_text(text: tuple[str, str, list[str]], data: st.DataObject) -> None:
    """Each round hears a little more, and goes on after the words that were confirmed."""
    language, whole, _ = text
    tokens = multilingual().encode(whole)
    confirmed: list[TokenWord] = []
    stops = data.draw(st.lists(st.integers(0, len(tokens)), max_size=3))
    for stop in [*sorted(stops), len(tokens)]:
        prefix = tokens_of(confirmed)
        words = words_of(tokens[len(prefix) : stop], language, prefix)
        assert whole.startswith(join_text([*confirmed, *words]))
        firm = len(words) if stop == len(tokens) else data.draw(st.integers(0, len(words)))
        confirmed += words[:firm]
    assert join_text(confirmed) == whole


def join_text(words: "list[TokenWord] | tuple[TokenWord, ...]") -> str:
    return "".join(each.word.text for each in words)


@quick(40)
@given(written())
def test_events_come_back_from_json_as_they_were(text: tuple[str, str, list[str]]) -> None:
    event = Confirmed(0, SAMPLE_RATE, tuple(spoken(text[1], text[0])))
    told = json.dumps(to_dict(event), ensure_ascii=False)
    assert BROKEN not in told
    assert from_dict(json.loads(told.encode())) == event


@pytest.mark.slow
@quick(60)
@given(written())
def test_lines_of_subtitles_and_of_text_begin_and_end_with_a_character(text: tuple[str, str, list[str]]) -> None:
    language, whole, characters = text
    words = spoken(whole, language)
    found = cues(Document(segment_words(words), language=language))
    lines = [line for cue in found for line in cue.text.split("\n")]
    assert "".join("".join(lines).split()) == "".join(whole.split())
    offsets = {0}
    for character in ("".join(each.split()) for each in characters):
        offsets.add(max(offsets) + len(character))
    at = 0
    for line in lines:
        assert at in offsets, f"{line!r} begins inside a character of {whole!r}"
        at += len("".join(line.split()))


@pytest.mark.parametrize(("language", "phrase"), [("ja", "東京に行きました"), ("zh", "我们今天去北京")])
def test_lines_hold_half_as_many_wide_characters(language: str, phrase: str) -> None:
    words = spoken(phrase * 12, language, SAMPLE_RATE // 10)
    lines = [line for cue in cues(Document(segment_words(words), language=language)) for line in cue.text.split("\n")]
    assert all(width(line) <= 42 for line in lines)
    assert max(map(width, lines)) > 30  # they are used


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
@quick(8)
@given(written(), st.integers(0, 30))
def test_every_protocol_sends_whole_characters(
    kind: type[WireProtocol], text: tuple[str, str, list[str]], confirmed: int
) -> None:
    """What it sends is UTF-8, and has all words that were confirmed."""
    words = tuple(spoken(text[1], text[0]))
    talk = Conversation(kind(opening(sample_rate="16000", encoding="", interim_results="true")))
    if kind.name == "whisperlive":
        talk.send(SAID[-1])
    end = to_samples(len(words))
    first, rest = words[:confirmed], words[confirmed:]
    events = [*([Confirmed(0, end, first)] if first else ()), Hypothesis(1, end, rest)]
    events += [*([Confirmed(2, end, rest)] if rest else ()), TurnEnd(3, end, end), End(4, end, end)]
    talk._perform(talk.protocol.events(events))
    said = b"\n".join(reply.encode() if isinstance(reply, str) else reply for reply in talk.replies).decode()
    assert BROKEN not in said
    for one, other in pairwise(words):
        # Lines may break between two words, never in one.
        assert one.text.strip() in said
        assert other.text.strip() in said
    assert join_words(words).strip()[-1:] in said
