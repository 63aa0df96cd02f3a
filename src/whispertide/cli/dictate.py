"""`whispertide dictate`: what you say is typed into the window that has the focus, as it is confirmed."""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whispertide.cli import arguments
from whispertide.cli.exit import ExitCode, guarded, say
from whispertide.cli.interrupt import Interrupts
from whispertide.cli.output import STDIN
from whispertide.cli.source import Source
from whispertide.errors import OptionError
from whispertide.options import DEFAULT_MODEL, DEFAULT_RECIPE, DecodeOptions

if TYPE_CHECKING:
    from whispertide.api import Transcriber
    from whispertide.cli.pump import Arrivals
    from whispertide.cli.typist import Typist
    from whispertide.dictation.chords import Chord
    from whispertide.dictation.keyboard import Keyboard
    from whispertide.dictation.switch import Switch
    from whispertide.recipes.recipe import Recipe
    from whispertide.types import FloatArray

_DEFAULT_KEY = "ctrl+alt+space"
NO_KEY, BY_SIGNAL = "none", "signal"
_TOGGLE = getattr(signal, "SIGUSR1", None)
_POLL_S = 0.1


@guarded
@arguments.group_options
def dictate(
    *,
    model: arguments.Model = DEFAULT_MODEL,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            metavar="KEYS",
            help=f"The hotkey; none: start at once; signal: SIGUSR1 starts and stops. Default: {_DEFAULT_KEY}.",
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Dictate while the key is held down. Default: press to start, press to stop.")
    ] = False,
    commands: Annotated[
        Path | None, typer.Option("--commands", metavar="FILE.toml", help="File with your own spoken commands.")
    ] = None,
    printed: Annotated[
        bool, typer.Option("--print", help="Write the text to standard output instead of typing it.")
    ] = False,
    audio: Annotated[
        str | None,
        typer.Option("--audio", metavar="FILE|-", help="A recording, or standard input, in place of the microphone."),
    ] = None,
    device: arguments.Device = None,
    no_tune: arguments.NoTune = False,
    text: arguments.Text,
    stream: arguments.Stream,
    engine: arguments.Engine,
    revision: arguments.Revision = None,
) -> ExitCode:
    """Type what you say into the window that has the focus, with spoken commands such as "new line". Ctrl-C ends it.

    Nothing that is said or typed is stored. The microphone is open only while you dictate.
    """
    from whispertide.cli.job import warn_of_synthetic
    from whispertide.cli.tune import tune_first
    from whispertide.cli.typist import Typist
    from whispertide.dictation.commands import Commands, read_commands
    from whispertide.dictation.composer import Composer

    if audio is not None and device is not None:
        raise OptionError(f"expected --audio or --device, not both; got {audio!r} and {device!r}")
    chord = _hotkey(key, default=NO_KEY if printed or audio is not None else _DEFAULT_KEY)
    if hold and isinstance(chord, str):
        raise OptionError(f"expected keys to hold, such as --key f9, with --hold; got --key {chord}")
    if audio == STDIN and chord != NO_KEY:
        raise OptionError(f"expected --key none with --audio -, which can be read only once; got --key {chord}")
    known, word = Commands() if commands is None else read_commands(commands), stream.hush_word()
    options, recipe = arguments.check_options(text), stream.resolve(word, start=_recipe())
    source = _Microphone(device) if audio is None else _Recording(Source(audio))
    with ExitStack() as opened:
        keyboard = _keyboard(printed)
        opened.callback(keyboard.close)
        switch, pressed = _switch(keyboard, chord, hold=hold)
        opened.enter_context(pressed)  # keys that cannot be had: say so before a model is loaded
        source.check()
        transcriber = arguments.load(model, engine, revision, word)
        warn_of_synthetic(transcriber, [] if audio is None else [audio])
        transcriber.warm_up()
        if source.live:
            tune_first(transcriber, recipe, refused=no_tune)
        typist = Typist(Composer(known), keyboard, switch)
        dictation = Dictation(transcriber, options, recipe, source, typist)
        return dictation.run(_how(chord, hold=hold), once=chord == NO_KEY)


def _recipe() -> "Recipe":
    """The default recipe, but that every pause ends an utterance: else a command between two pauses would be none."""
    from whispertide.recipes.catalogue import get_recipe

    return get_recipe(DEFAULT_RECIPE).replace(vad_turn_s=0.0)


def _hotkey(key: str | None, default: str) -> "Chord | str":
    """The keys, or `NO_KEY`, or `BY_SIGNAL`. Raises `OptionError`."""
    from whispertide.dictation.chords import parse_chord

    given = (default if key is None else key).strip().lower()
    if given == BY_SIGNAL and _TOGGLE is None:
        raise OptionError("expected keys, or none, for --key: this system has no SIGUSR1")
    return given if given in (NO_KEY, BY_SIGNAL) else parse_chord(given)


def _keyboard(printed: bool) -> "Keyboard":
    from whispertide.dictation.keyboard import open_keyboard
    from whispertide.dictation.printed import PrintedKeyboard

    return PrintedKeyboard(sys.stdout, say) if printed else open_keyboard()


def _switch(keyboard: "Keyboard", chord: "Chord | str", *, hold: bool) -> "tuple[Switch, AbstractContextManager[None]]":
    """The switch, and the context in which the keys, or the signal, change it."""
    from whispertide.dictation.switch import Switch

    switch = Switch(hold=hold)
    if not isinstance(chord, str):
        return switch, keyboard.hotkey(chord, switch)
    return switch, _on_signal(switch.tap) if chord == BY_SIGNAL else nullcontext()


@contextmanager
def _on_signal(tap: Callable[[], None]) -> Iterator[None]:
    assert _TOGGLE is not None
    before = signal.signal(_TOGGLE, lambda *_: tap())
    try:
        yield
    finally:
        signal.signal(_TOGGLE, before)


def _how(chord: "Chord | str", *, hold: bool) -> str:
    """What begins and ends a dictation."""
    if chord == NO_KEY:
        return "dictating; press Ctrl-C to end"
    if chord == BY_SIGNAL:
        return f"ready; `kill -USR1 {os.getpid()}` begins to dictate, and ends it; press Ctrl-C to quit"
    if hold:
        return f"ready; hold {chord} down while you dictate; press Ctrl-C here to quit"
    return f"ready; press {chord} to dictate, and again to end; press Ctrl-C here to quit"


# --- where the audio comes from ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Microphone:
    device: str | None
    live = True

    def check(self) -> None:
        """Raise `AudioDeviceError` if there is none."""
        with self.blocks():
            pass

    def blocks(self) -> "AbstractContextManager[Iterator[FloatArray]]":
        from whispertide.audio import mic

        return mic.microphone_blocks(self.device)


@dataclass(frozen=True, slots=True)
class _Recording:
    source: Source

    @property
    def live(self) -> bool:
        """A pipe may be spoken into now; a file is heard as fast as it can be."""
        return self.source.is_pipe

    def check(self) -> None:
        """Raise `AudioFileError` if there is nothing to decode."""
        self.source.probe()

    def blocks(self) -> "AbstractContextManager[Iterator[FloatArray]]":
        return nullcontext(self.source.blocks())


# --- the run ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dictation:
    """Dictations one after the other, each a session of its own."""

    transcriber: "Transcriber"
    options: DecodeOptions
    recipe: "Recipe"
    source: _Microphone | _Recording
    typist: "Typist"

    def run(self, how: str, *, once: bool) -> ExitCode:
        """Dictate whenever the switch is on, until Ctrl-C; or `once`, at once. `how` is said first.

        Raises `AudioError`, and `KeyboardError` after the words that were not typed are on standard output.
        """
        switch = self.typist.switch
        say(how)
        if once:
            switch.turn_on()
        with Interrupts() as interrupts:
            while True:
                try:
                    with interrupts.waiting():
                        while not switch.wait(_POLL_S):
                            pass
                except KeyboardInterrupt:
                    return ExitCode.OK
                if not once:
                    say("dictating")
                self._dictate(interrupts)
                if once or interrupts.pressed:
                    return ExitCode.INTERRUPTED if interrupts.pressed and not self.source.live else ExitCode.OK
                say("not dictating")

    def _dictate(self, interrupts: Interrupts) -> None:
        """One dictation, until the switch is off."""
        from whispertide.cli.meter import Meter
        from whispertide.cli.pump import Pump
        from whispertide.cli.watch import Warnings

        live = self.source.live
        self.typist.begin()
        session = self.transcriber.session(self.recipe, options=self.options, live=live)
        try:
            with self.source.blocks() as recorded:
                blocks, rest = self._blocks(recorded)
                result = Pump(session, Meter(live), [Warnings(), self.typist], rest).run(blocks, interrupts)
            self.typist.end()
        except BaseException:  # of the keyboard, of the model, or Ctrl-C
            self._rescue()
            raise
        finally:
            session.close()
        if not live:  # it ended by itself; else the key may be down again already
            self.typist.switch.turn_off()
        if result.broken is not None:
            raise result.broken

    def _blocks(self, recorded: "Iterator[FloatArray]") -> "tuple[Iterable[FloatArray], Any]":
        """The audio while the switch is on, and for a live one the function that takes what has arrived besides."""
        from whispertide.cli.pump import Arrivals, at_full_speed

        if not self.source.live:
            return self._while_on(at_full_speed(recorded, self.recipe.schedule.step)), None
        arrivals = Arrivals(recorded)
        return self._then_rest(arrivals), arrivals.rest

    def _while_on(self, blocks: "Iterable[FloatArray]") -> "Iterator[FloatArray]":
        for block in blocks:
            yield block
            if not self.typist.switch.on:
                return

    def _then_rest(self, arrivals: "Arrivals") -> "Iterator[FloatArray]":
        yield from self._while_on(arrivals)
        yield arrivals.rest()

    def _rescue(self) -> None:
        """Write what was confirmed and not typed to standard output: nothing else has it."""
        if text := self.typist.untyped.strip():
            say("what was said and not typed:")
            typer.echo(text)
