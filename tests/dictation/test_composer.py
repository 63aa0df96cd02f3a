"""What is typed, on a screen that does what a keyboard's strokes say."""

from hypothesis import given
from hypothesis import strategies as st

from each_row import each_row
from whispertide.dictation.chords import parse_chord
from whispertide.dictation.commands import BUILT_IN, Command, Commands, Insert, Keys, Scratch
from whispertide.dictation.composer import Composer
from whispertide.dictation.strokes import Erase, Press, Stroke, Type
from whispertide.streaming.repetition import normalise

PAUSE = "|"
MORE: dict[str, Command] = {
    "comma": Insert(","),
    "full stop": Insert("."),
    "new tab": Keys((parse_chord("ctrl+t"),)),
    "let's go": Insert("!"),
}
MINE = Commands({**BUILT_IN, **{normalise(phrase): command for phrase, command in MORE.items()}})


def show(screen: str, strokes: list[Stroke]) -> str:
    """The text before the cursor after these strokes. What is erased must stand there."""
    for stroke in strokes:
        match stroke:
            case Type(text):
                screen += text
            case Erase(text):
                assert screen.endswith(text)
                screen = screen.removesuffix(text)
            case Press(chord):
                screen += f"<{chord}>"
    return screen


def typed(said: str, commands: Commands = MINE, composer: Composer | None = None) -> str:
    """What stands there after utterances, with a bar for each pause."""
    composer, screen = composer or Composer(commands), ""
    composer.begin()
    for number, utterance in enumerate(said.split(PAUSE)):
        if number:
            screen = show(screen, composer.pause())
        for word in utterance.replace(" ", "\0 ").split("\0"):
            screen = show(screen, composer.hear(word))
    return screen


@each_row(
    ("said", "expected"),
    [
        (" Hello there. How are you?|", "Hello there. How are you?"),
        (" Hello.| How are you?|", "Hello. How are you?"),  # one space between utterances
        (" I came| and saw|, and went|", "I came and saw, and went"),  # none before a mark
        (" Anna (|the cook)|", "Anna (the cook)"),
        (" It is 3.5 m. New line.|", "It is 3.5 m.\n"),
        ("你好。|我们走。|", "你好。我们走。"),  # none in Chinese and Japanese
        (" “你好。”|“走。”|", "“你好。”“走。”"),
        (" I said| 你好。| Then we left.|", "I said 你好。 Then we left."),
        (" Café ß 漢字|", "Café ß 漢字"),
        (" Cafe\u0301|", "Café"),  # as one character
    ],
)
def test_spaces(said: str, expected: str) -> None:
    assert typed(said) == expected


@each_row(
    ("said", "expected"),
    [
        (" New line.|", "\n"),
        (" new line|", "\n"),
        (" Newline!|", "\n"),
        (" new-line|", "\n"),
        (" “New line.”|", "\n"),
        (" Dear Anna, new line, how are you?|", "Dear Anna,\nhow are you?"),
        (" Dear Anna,| new line| how are you?|", "Dear Anna,\nhow are you?"),
        (" That is all. New paragraph. one more|", "That is all.\n\nOne more"),  # a sentence begins with a capital
        (" That is all| new paragraph| one more|", "That is all\n\nOne more"),
        (" It is late. New line. come|", "It is late.\nCome"),
        (" A new line of products.|", "A new line of products."),  # no part of its own
        (" New line of products.|", "New line of products."),
        (" I want a new line|", "I want a new line"),
        (" Well, a new line, then.|", "Well, a new line, then."),
        (" New| line|", "New line"),  # a pause in the middle: two utterances
        (" New, line.|", "New, line."),
        (" New lines.|", "New lines."),
        (" New|", "New"),
        (" Let's go.|", "!"),
        (" Let's see.|", "Let's see."),
    ],
)
def test_a_command_is_a_part_of_its_own(said: str, expected: str) -> None:
    assert typed(said) == expected


@each_row(
    ("said", "expected"),
    [
        (" I like cats.| Scratch that.|", ""),
        (" I like cats.| I like dogs.| Scratch that.|", "I like cats."),
        (" I like cats.| I like dogs.| Scratch that.| scratch that| Birds.|", "Birds."),
        (" I like cats. Scratch that. I like dogs.|", "I like dogs."),
        (" I like cats.| I like dogs. Scratch that.|", "I like cats."),
        (" Dear Anna, new line, hello.| Scratch that.|", ""),
        (" One.| Two.| Scratch that.| Three.|", "One. Three."),
        (" Scratch that.|", ""),
        (" One.| New tab.| Scratch that.|", "One.<ctrl+t>"),  # keys may have moved the cursor
        (" One.| New tab.| Two.| Scratch that.|", "One.<ctrl+t>"),
        (" To scratch that itch.|", "To scratch that itch."),
        (" Scratch that itch.|", "Scratch that itch."),
    ],
)
def test_scratch_takes_back_what_the_last_utterance_typed(said: str, expected: str) -> None:
    assert typed(said) == expected


@each_row(
    ("said", "expected"),
    [
        (" Hello| comma| Anna|", "Hello, Anna"),
        (" Hello.| Comma.| Anna|", "Hello, Anna"),  # in place of the mark that the model wrote
        (" Hello.| Comma.| Scratch that.|", "Hello."),
        (" So it is| full stop| good|", "So it is. Good"),
        (" Well| full stop| full stop|", "Well.."),
    ],
)
def test_marks_that_are_said(said: str, expected: str) -> None:
    assert typed(said) == expected


def test_words_that_begin_no_command_are_typed_at_once() -> None:
    composer = Composer()
    assert composer.hear(" The") == [Type("The")]
    assert composer.hear(" new") == [Type(" new")]
    assert composer.hear(" line.") == [Type(" line.")]
    assert composer.hear(" New") == []  # it may be a command
    assert composer.hear(" York") == [Type(" New York")]


def test_a_command_is_obeyed_as_soon_as_it_is_over() -> None:
    composer = Composer()
    assert composer.hear(" New line,") == []
    assert composer.hear(" how") == [Type("\nHow")]
    assert composer.pause() == []


def test_stop_ends_the_dictation() -> None:
    composer = Composer()
    assert typed(" Good bye.| Stop dictation. And more| of it|", composer=composer) == "Good bye."
    assert composer.stopped
    composer.begin()
    assert composer.hear(" Again.") == [Type(" Again.")]


def test_elsewhere_nothing_is_taken_back_and_no_space_is_typed() -> None:
    composer = Composer()
    assert typed(" One.|", composer=composer) == "One."
    composer.forget()
    assert typed(" Scratch that.| Two.|", composer=composer) == "Two."


def test_a_dictation_goes_on_after_the_last_one() -> None:
    composer = Composer()
    assert typed(" One.", composer=composer) == "One."
    assert typed(" Two.", composer=composer) == " Two."


def test_a_copy_goes_its_own_way() -> None:
    composer = Composer()
    composer.hear(" One.")
    composer.pause()
    other = composer.copy()
    other.hear(" Scratch that.")
    other.pause()
    assert (composer.text, other.text) == ("One.", "")


WORDS = (
    " a",
    " new",
    " line",
    " New",
    " line,",
    " scratch",
    " that.",
    " 3",
    ".5",
    " Anna.",
    ",",
    " comma",
    " “x”",
    "好",
    "。",
)
SAID = st.lists(st.one_of(st.sampled_from(WORDS), st.just(PAUSE)), max_size=25)


def fed(pieces: list[str], commands: Commands = MINE) -> tuple[str, Composer]:
    composer, screen = Composer(commands), ""
    for piece in pieces:
        screen = show(screen, composer.pause() if piece == PAUSE else composer.hear(piece))
    return show(screen, composer.pause()), composer


@given(SAID, st.data())
def test_how_words_arrive_changes_nothing(said: list[str], data: st.DataObject) -> None:
    whole: list[str] = []
    for piece in said:  # all that belongs to an utterance at once
        if piece == PAUSE or not whole or whole[-1] == PAUSE:
            whole.append(piece)
        else:
            whole[-1] += piece
    split: list[str] = []
    for piece in whole:
        if piece == PAUSE:
            split.append(piece)
            continue
        cuts = sorted(data.draw(st.sets(st.integers(1, len(piece)), max_size=4)))
        split += [piece[start:end] for start, end in zip([0, *cuts], [*cuts, len(piece)], strict=True)]
    assert fed(split)[0] == fed(said)[0] == fed(whole)[0]


@given(SAID, SAID)
def test_scratch_leaves_exactly_the_text_before(before: list[str], utterance: list[str]) -> None:
    """Whatever the utterance was, unless it pressed keys or scratched itself."""
    scratched: dict[str, Command] = {"scratchthat": Scratch(), "newline": Insert("\n"), "comma": Insert(",")}
    commands = Commands({**scratched, "undo": Scratch()})
    calm = Commands({phrase: command for phrase, command in scratched.items() if not isinstance(command, Scratch)})
    screen, composer = fed(before, commands)
    earlier, changes = screen, len(composer.changes)
    composer.commands = calm
    for word in (piece for piece in utterance if piece != PAUSE):
        screen = show(screen, composer.hear(word))
    screen = show(screen, composer.pause())
    if len(composer.changes) == changes:  # it typed nothing
        assert screen == earlier
        return
    composer.commands = commands
    screen = show(screen, composer.hear(" Undo."))
    assert show(screen, composer.pause()) == earlier
