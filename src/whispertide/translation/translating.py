"""The translation of one session: its events in, `Translation` and `Correction` events out, some time later.

    translating.take(event)       for every event of the session, in order
    translating.ready()           the events that are there by now; never waits
    translating.finish(); translating.wait(s)     at the end

A sentence is a line of the transcript (`formats.document.Segmenter`): it goes out when it is finished. A thread asks
the translator, for one text at a time. What is finished meanwhile waits and goes out together, so a slow translator
gets longer texts and none is lost. Where it fails, one `Error` event says so that is not fatal, and captions go on.

Events have the number 0: whoever sends them numbers them. Knows no sockets and no screen.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from whispertide.events import Confirmed, Correction, End, Error, Event, Language, Translation, TurnEnd
from whispertide.formats.document import Segmenter, TextSegment
from whispertide.translation.translator import Request, TranslationOptions, Translator, TranslatorError
from whispertide.types import Word

log = logging.getLogger("whispertide.translation")

MOST_CHARS = 1_000  # of sentences in one request
MOST_WAITING = 60_000  # characters: more than an hour of speech; beyond, the oldest sentences are given up
ROOM = 4_000  # characters: with more than that waiting, a recording need not be read on
_BEFORE = 2  # sentences, as the context of a request
_PAUSES_S = (5.0, 15.0, 30.0)  # after a failure, before the next request


@dataclass(frozen=True, slots=True)
class Sentence:
    """A finished sentence, from sample `start` to `end`, in the language that was known for it, of the voice with this
    number, if voices are known.
    """

    start: int
    end: int
    text: str
    language: str | None = None
    speaker: int | None = None


@dataclass(frozen=True, slots=True)
class TranslationState:
    """What a translation has to go on with elsewhere: sentences that nobody has the translation of, those before them,
    the words of the sentence that is being said, the language, and whether its failure was told.
    """

    sentences: tuple[Sentence, ...] = ()
    before: tuple[str, ...] = ()
    held: tuple[Word, ...] = ()
    language: str | None = None
    told: bool = False
    end: End | None = None  # of the session, which waits for the translation


@dataclass(frozen=True, slots=True)
class _Batch:
    """The sentences of one request, which are one text each way: of one voice, and in one language."""

    sentences: tuple[Sentence, ...]
    before: tuple[str, ...]

    @property
    def end(self) -> int:
        return self.sentences[-1].end


class Translating:
    """The translation of one session. Safe for use by several threads.

    `language` is that of the text, as far as it is known from the start; if it is `fixed` no detected one counts, such
    as that of speech that Whisper translates. Sentences that wait go out together, those of a `whole` recording each
    alone. Where the translations stand `apart`, as a text of their own, a sentence that is in the wanted language
    already is its own translation: else the text would lack it.
    With `private` the reason of a failure goes to the log alone: it may name the translator's address, and whoever
    reads the events did not choose it. `wake` is called from another thread whenever `ready` has something.
    """

    def __init__(
        self,
        translator: Translator,
        options: TranslationOptions,
        *,
        language: str | None = None,
        fixed: bool = False,
        whole: bool = False,
        apart: bool = False,
        private: bool = False,
        wake: Callable[[], None] = lambda: None,
        pauses_s: Sequence[float] = _PAUSES_S,
    ) -> None:
        """Raises `OptionError` for a target that the translator cannot do."""
        for target in options.targets:
            translator.check(target)
        self.translator, self.options = translator, options
        self._wake, self._pauses_s, self._private = wake, pauses_s, private
        self._whole, self._apart = whole, apart
        self._language, self._fixed = language, fixed
        self._segmenter = Segmenter()
        self._changed = threading.Condition()  # guards all that follows
        self._waiting: deque[Sentence] = deque()  # the first `_asked` of them are asked about
        self._asked = 0
        self._before: deque[str] = deque(maxlen=_BEFORE)
        self._done: list[tuple[int, list[Event]]] = []  # how many sentences, and the events of them
        self._thread: threading.Thread | None = None
        self._failures = 0  # since the last answer
        self._told = self._off = self._finishing = self._closed = False
        self._lost = 0  # sentences that were given up

    # --- what is said ------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Take an event of the session."""
        match event:
            case Language(language=language) if not self._fixed:
                if self._language not in (None, language):  # no sentence goes on in another one
                    self.add(self._segmenter.end_turn())
                self._language = language
            case Confirmed(words=words):
                self.add(self._segmenter.push(words))
            case TurnEnd(eager=False) | End() | Error(fatal=True):
                self.add(self._segmenter.end_turn())

    def set_language(self, language: str | None, *, fixed: bool = False) -> None:
        """Set the language of the text from here on, as at the start."""
        self._language, self._fixed = language, fixed

    def add(self, segments: Iterable[TextSegment]) -> None:
        """Take finished sentences."""
        found = [
            Sentence(segment.start, segment.end, " ".join(segment.text.split()), self._language, segment.speaker)
            for segment in segments
        ]
        with self._changed:
            if self._closed:  # a step that was running when nobody wanted it any more
                return
            self._waiting += [sentence for sentence in found if sentence.text and self._wanted(sentence)]
            self._bound()
            self._start()

    def finish(self) -> None:
        """Nothing follows: what waits is asked about once more, and given up where that fails."""
        with self._changed:
            self._finishing = True
            if self._thread is None:
                self._tell_loss()
            self._changed.notify_all()

    def close(self) -> None:
        """Give up everything: nobody wants it any more."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._done.clear()
            self._asked = 0
            self._changed.notify_all()

    # --- what comes of it --------------------------------------------------------------------------------------------

    def ready(self) -> list[Event]:
        """The new events."""
        with self._changed:
            done, self._done = self._done, []
            for count, _ in done:
                for _ in range(min(count, len(self._waiting))):
                    self._waiting.popleft()
                self._asked -= count
            return [event for _, events in done for event in events]

    @property
    def has_news(self) -> bool:
        """True if `ready` has something."""
        return bool(self._done)

    @property
    def is_done(self) -> bool:
        """True if nothing more comes, until there are other sentences."""
        with self._changed:
            return not self._waiting and not self._done

    @property
    def has_room(self) -> bool:
        """False where so much waits for a translator that answers that a recording need not be read on at once."""
        with self._changed:
            return bool(self._failures) or self._size() < ROOM

    def wait(self, most_s: float) -> None:
        """Wait until there is something new, or nothing to wait for, but not longer than that."""
        with self._changed:
            if self._waiting and not self._done:
                self._changed.wait(most_s)

    def give_up(self) -> None:
        """End the wait for what is not there; the last event says how many sentences that were."""
        with self._changed:
            self._off = True
            self._drop_rest()
            self._tell_loss()
            self._changed.notify_all()
        self._wake()

    def snapshot(self, end: End | None = None) -> TranslationState:
        """Copy the state, to be handed to `restore` of another one; `end` is what waits for it."""
        with self._changed:
            waiting = tuple(self._waiting)
            return TranslationState(
                waiting, tuple(self._before), tuple(self._segmenter.held), self._language, self._told, end
            )

    def restore(self, state: TranslationState) -> None:
        """Go on from the state of another one."""
        self._segmenter.held = list(state.held)
        self._language, self._told = state.language or self._language, state.told
        with self._changed:
            self._before.extend(state.before)
            self._waiting.extend(state.sentences)
            self._start()

    # --- inside, with the lock ---------------------------------------------------------------------------------------

    def _wanted(self, sentence: Sentence) -> bool:
        """True if anything is to be made of it: what is in the language already needs no translation."""
        return self._apart or self.options.correct or sentence.language != self.options.to

    def _size(self) -> int:
        return sum(len(sentence.text) for sentence in islice(self._waiting, self._asked, None))

    def _bound(self) -> None:
        """Give up the oldest sentences where too much waits."""
        size = self._size()
        while size > MOST_WAITING and len(self._waiting) > self._asked:
            size -= len(self._waiting[self._asked].text)
            del self._waiting[self._asked]
            self._lost += 1

    def _start(self) -> None:
        if self._off:
            self._drop_rest()
        if self._thread is None and not self._closed and len(self._waiting) > self._asked:
            # A daemon: a request cannot be interrupted, and must not keep the program from ending.
            self._thread = threading.Thread(target=self._work, name="translation", daemon=True)
            self._thread.start()

    def _drop_rest(self) -> None:
        """Give up all sentences without an answer."""
        answered = sum(count for count, _ in self._done)
        self._lost += len(self._waiting) - answered
        while len(self._waiting) > answered:
            self._waiting.pop()
        self._asked = answered

    def _tell_loss(self) -> None:
        """Make the last event, if there are sentences without a translation."""
        if self._lost:
            self._done.append((0, [Error(0, 0, _loss(self._lost), fatal=False)]))
            self._lost = 0

    # --- in the thread -----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (batch := self._next()) is not None:
            try:
                events = [self._ask(batch, target) for target in self.options.targets]
            except TranslatorError as error:
                self._failed(batch, error)
            except Exception as error:  # the thread must not end with sentences that somebody waits for
                log.exception("translation failed")
                self._failed(batch, TranslatorError(f"{self.translator.name}: {error}", "lasting"))
            else:
                self._answered(batch, [event for event in events if event is not None])

    def _next(self) -> _Batch | None:
        """Take the sentences for the next request. None: there are none, and the thread is over."""
        with self._changed:
            fresh = list(islice(self._waiting, self._asked, None))
            if not fresh or self._closed or self._off:
                self._thread = None
                if self._finishing and not self._closed and self._lost:
                    self._tell_loss()
                    self._changed.notify_all()
                    self._wake()
                return None
            count, size = 0, 0
            for sentence in fresh:
                size += len(sentence.text)
                if count and (self._whole or size > MOST_CHARS or not _go_together(fresh[0], sentence)):
                    break
                count += 1
            self._asked += count
            return _Batch(tuple(fresh[:count]), tuple(self._before))

    def _ask(self, batch: _Batch, target: str | None) -> Event | None:
        first = batch.sentences[0]
        is_in_it = target is not None and first.language == target
        if is_in_it and not self._apart:
            return None
        texts = tuple(sentence.text for sentence in batch.sentences)
        asked = Request(texts, first.language, target, batch.before)
        text = " ".join(texts) if is_in_it else self.translator.translate(asked)
        if target is None:
            return Correction(0, batch.end, first.start, batch.end, text, speaker=first.speaker)
        return Translation(0, batch.end, first.start, batch.end, target, text, speaker=first.speaker)

    def _answered(self, batch: _Batch, events: list[Event]) -> None:
        with self._changed:
            if self._closed or self._off:
                return
            self._failures = 0
            self._before.extend(sentence.text for sentence in batch.sentences)
            self._done.append((len(batch.sentences), events))
            self._changed.notify_all()
        self._wake()

    def _failed(self, batch: _Batch, error: TranslatorError) -> None:
        """Tell it once. Sentences wait for the end of an outage; else they are given up: these, or all."""
        count = len(batch.sentences)
        with self._changed:
            if self._closed or self._off:
                return
            news: list[Event] = [] if self._told else [Error(0, batch.end, self._say(error), fatal=False)]
            self._told = True
            outage = error.failure == "outage" and not self._finishing
            if outage:
                self._asked -= count  # they are asked about again
                self._done += [(0, news)] if news else []
            else:
                self._lost += count
                self._done.append((count, news))
            if error.failure == "lasting" or (error.failure == "outage" and self._finishing):
                self._off = True
                self._drop_rest()
            self._changed.notify_all()
        self._wake()
        if outage:
            self._pause()

    def _say(self, error: TranslatorError) -> str:
        if not self._private:
            return f"{_failure(error)} ({error})"
        log.warning("translations fail", extra={"problem": str(error)})
        return _failure(error)

    def _pause(self) -> None:
        """Wait before the next request: until the end of the session at the longest."""
        with self._changed:
            pause_s = self._pauses_s[min(self._failures, len(self._pauses_s) - 1)]
            self._failures += 1
            until = time.monotonic() + pause_s
            while not (self._finishing or self._closed or self._off) and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)


def _go_together(first: Sentence, other: Sentence) -> bool:
    """True if both can be in one text, which has one voice and one language."""
    return (first.speaker, first.language) == (other.speaker, other.language)


def _failure(error: TranslatorError) -> str:
    goes_on = {
        "answer": "this sentence is left out",
        "outage": "sentences wait until it answers",
        "lasting": "there are none in this session",
    }[error.failure]
    return f"translations fail, captions continue: {goes_on}"


def _loss(count: int) -> str:
    return f"{count} {'sentence has' if count == 1 else 'sentences have'} no translation"
