"""Sessions survive the death of their server: nothing that was accepted is lost, nothing that was sent changes."""

import asyncio
import io
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from served import SECONDS, SILENCE, TEXT, Client, KnowingModel, client, complete, served, text_of
from shared_journal import accepted, back, copied, finish_talk, in_order, journaled, written
from slow_rows import slow_but
from whispertide.errors import OptionError
from whispertide.events import to_dict
from whispertide.options import DecodeOptions
from whispertide.recipes.catalogue import get_recipe
from whispertide.recipes.recipe import Recipe
from whispertide.server.journal import Journal
from whispertide.server.journal_values import StateLoader, pack, unpack
from whispertide.server.live import LiveSession
from whispertide.server.protocols.base import Audio, Clear, Configure, Finish, Flush, Settings
from whispertide.server.serving import assemble
from whispertide.session import Session


@pytest.mark.slow
@settings(max_examples=5)
@given(half_seconds=st.integers(0, 19), pause_ms=st.integers(0, 40), flush=st.booleans())
def test_a_server_that_dies_at_any_moment(
    tmp_path_factory: pytest.TempPathFactory, half_seconds: int, pause_ms: int, flush: bool
) -> None:
    """A copy of the journal, taken while the server works, is what a kill at that moment would leave."""
    folder = tmp_path_factory.mktemp("journal")

    said = 10_400 + 8_000 * half_seconds  # between two words, so that a flush splits none

    async def run() -> None:
        options = journaled(folder / "before")
        async with served(options, KnowingModel(round_s=0.005)) as (server, _), client(server) as one:
            await one.send({"type": "start"}, *[bytes(16_000)] * (said // 8_000), bytes(2 * (said % 8_000)))
            await one.until("session")
            if flush:
                await one.send({"type": "flush"})
            await accepted(one, said - 15_999)
            await asyncio.sleep(pause_ms / 1000)
            copied(folder / "before", folder / "after")
            session = one.said("session")[0]["session"]
        async with served(journaled(folder / "after")) as (server, hub):
            assert list(hub.sessions) == [session]
            # What the dead server sent is in the copy; what this one sent after the copy was taken is not.
            before = [event for event in one.events if event.seq < hub.sessions[session].outbox.next_seq]
            async with client(server, f"?session={session}&last_seq={len(before) - 1}") as again:
                started = await again.until("session")
                assert said - 16_000 < started["received"] <= said
                await finish_talk(again, started["received"])
        events = in_order(before, again.events)
        assert complete(events)
        assert text_of(events) == TEXT

    asyncio.run(run())


@pytest.mark.parametrize(
    "said", slow_but([64_000, 60_800, 12_800], 60_800)
)  # between two words, and in the middle of one
async def test_a_restart_in_good_order_keeps_sessions_as_they_are(tmp_path: Path, said: int) -> None:
    """SIGTERM must not be worse than SIGKILL: nothing is confirmed in a hurry, no word is cut in two."""
    async with served(journaled(tmp_path)) as (server, _), client(server) as one:
        await one.send(bytes(2 * said))
        await accepted(one, said)
        server.should_exit = True
        assert await one.rest() == 1012
    async with served(journaled(tmp_path)) as (server, _), client(server, back(one)) as again:
        await again.until("session")
        await finish_talk(again, said)
    events = in_order(one.events, again.events)
    assert complete(events)
    assert text_of(events) == TEXT
    turns = [event.kind for event in events if event.kind in ("speech_start", "speech_stop", "turn_end")]
    assert turns == ["speech_start", "speech_stop", "turn_end"] * 3, "the restart ends no turn"


async def test_a_session_that_is_longer_than_the_next_server_allows_is_finished(tmp_path: Path) -> None:
    async with served(journaled(tmp_path)) as (server, _), client(server) as one:
        await one.send(bytes(2 * 64_000))
        await accepted(one, 64_000)
        server.should_exit = True
        assert await one.rest() == 1012
    async with served(journaled(tmp_path, session_s=3)) as (server, _), client(server, back(one)) as again:
        await again.until("session")
        await again.send(SILENCE)
        assert await again.rest() == 1000
    assert [problem["kind"] for problem in again.said("problem")] == ["too_long"]
    assert again.said("end")[0]["duration"] == 4
    events = in_order(one.events, again.events)
    assert complete(events)
    assert text_of(events) == TEXT[:5]


@dataclass
class Waiting(KnowingModel):
    """Runs so many rounds at first, and the others when it may."""

    rounds: int = 0
    may: threading.Event = field(default_factory=threading.Event)

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        session = super().session(recipe, options=options, vad=vad, live=live)
        executor: Any = session.executor
        run = executor.run

        def waiting(*arguments: Any) -> Any:
            self.rounds -= 1
            assert self.rounds >= 0 or self.may.wait(60)
            return run(*arguments)

        executor.run = waiting
        return session


@pytest.mark.parametrize("asked", ["finish", "flush"])
async def test_what_was_asked_for_goes_on_after_a_restart(
    tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server dies between the rounds that a flush or the end takes; the client asks again, or goes on."""
    dying = Waiting(rounds=2)
    async with served(journaled(tmp_path / "journal"), dying) as (server, hub), client(server) as one:
        total = round(SECONDS * 16_000)
        woken: list[LiveSession] = []
        with monkeypatch.context() as patch:  # no round before all is there: else there may be more of them
            patch.setattr(hub.scheduler, "wake", woken.append)
            await one.send(bytes(2 * total), {"type": asked})
            await accepted(one, total)
        hub.scheduler.wake(woken[0])
        await one.until("confirmed")
        async with asyncio.timeout(60):
            while dying.rounds >= 0:  # the third of the three rounds that it takes
                await asyncio.sleep(0.01)
        copied(tmp_path / "journal", tmp_path / "killed")
        seen = one.events
        dying.may.set()
    model = Waiting()
    async with served(journaled(tmp_path / "killed"), model) as (server, hub):
        session = one.said("session")[0]["session"]
        async with client(server, f"?session={session}&last_seq={seen[-1].seq}") as again:
            await again.until("session")
            await again.send({"type": "finish"})
            while not hub.sessions[session].finishing:
                await asyncio.sleep(0.01)
            model.may.set()
            assert await again.rest() == 1000
    assert complete(in_order(seen, again.events))
    assert text_of([*seen, *again.events]) == TEXT
    assert len(again.said("flushed")) == (asked == "flush")


def test_no_state_is_written_before_the_audio_that_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes what comes in while it runs, in a thread of its own: here at the very moment at which it comes."""
    put = LiveSession.put

    def put_and_taken(self: LiveSession, command: Any) -> None:
        put(self, command)
        self.step(0)
        assert written(hub.journal).result(60)
        copied(tmp_path / "journal", tmp_path / str(self.accepted))

    async def run() -> None:
        monkeypatch.setattr(hub.scheduler, "wake", lambda _: None)
        monkeypatch.setattr(LiveSession, "put", put_and_taken)
        live, _ = hub.open(Settings(), "", "native", resumable=True)
        for _ in range(2):
            hub.put(live, Audio(np.zeros(6 * 16_000, np.float32)))  # so much that a state is written anyway

    models: dict[str, Any] = {"nano.en": KnowingModel()}
    hub, close = assemble(models, get_recipe("whisper-streaming"), journaled(tmp_path / "journal"))
    asyncio.run(run())
    close()
    for seconds in (6, 12):
        left = Journal(tmp_path / str(seconds * 16_000))
        assert [kept.samples for kept in left.kept()] == [seconds * 16_000]
        left.close()


@dataclass
class Remeasured(KnowingModel):
    """Chooses another framing each time, as a machine may whose speed is about half a step."""

    framings: list[str] = field(default_factory=lambda: ["pad30", "bare"])
    given: list[str] = field(default_factory=list)

    def session(
        self, recipe: Recipe, *, options: DecodeOptions | None = None, vad: bool | None = None, live: bool = False
    ) -> Session:
        framing = self.framings.pop(0) if recipe.framing.kind == "auto" else recipe.framing.kind
        self.given.append(framing)
        return super().session(recipe.replace(framing=framing), options=options, vad=vad, live=live)


def test_after_a_restart_windows_are_framed_as_before(tmp_path: Path) -> None:
    model = Remeasured()

    async def run() -> None:
        async with served(journaled(tmp_path), model) as (server, _), client(server) as one:
            await one.send({"type": "start", "changes": {"framing": "auto"}}, *[SILENCE] * 4)
            await accepted(one, 64_000)
            server.should_exit = True
            await one.rest()
        async with served(journaled(tmp_path), model) as (_, hub):
            (live,) = hub.sessions.values()
            assert live.session.recipe.framing.kind == "pad30"

    asyncio.run(run())
    assert model.given == ["pad30", "pad30"]


@pytest.mark.parametrize("damage", slow_but(["log", "mark", "no mark"], "mark"))
def test_a_journal_that_is_older_than_what_was_told_is_given_up(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite silently forgets what comes after damage in its log; the client must not go on with an earlier session."""
    log = tmp_path / "killed" / "journal.sqlite3-wal"

    async def run() -> None:
        async with served(journaled(tmp_path / "journal")) as (server, _), client(server) as one:
            await one.send(SILENCE, SILENCE, {"type": "flush"})
            await one.until("flushed")
            copied(tmp_path / "journal", tmp_path / "before")
            await one.send(*[SILENCE] * 3)
            await accepted(one, 5 * 16_000)
            copied(tmp_path / "journal", tmp_path / "killed")
            session = one.said("session")[0]["session"]
        if damage == "log":
            data = bytearray(log.read_bytes())
            data[(tmp_path / "before" / log.name).stat().st_size + 100] ^= 1
            log.write_bytes(data)
        elif damage == "mark":
            (tmp_path / "killed" / "journal.sqlite3-mark").write_bytes(b"7")
        else:
            (tmp_path / "killed" / "journal.sqlite3-mark").unlink(missing_ok=True)
        async with served(journaled(tmp_path / "killed")) as (server, hub):
            assert not hub.sessions
            async with client(server, f"?session={session}&last_seq=-1") as again:
                assert await again.rest() == 4004
                assert [problem["kind"] for problem in again.said("problem")] == ["unknown_session"]
            async with client(server) as other:
                await finish_talk(other, 0)
                assert other.text == TEXT
        async with served(journaled(tmp_path / "killed")) as (server, hub):
            assert len(hub.sessions) == 1  # the new one can be asked for its end

    asyncio.run(run())
    lines = [record.getMessage() for record in caplog.records if "older than" in record.getMessage()]
    assert lines == ["the journal is older than what clients received; its sessions cannot be resumed"]


@pytest.mark.parametrize("command", [Flush(), Clear(), Finish(), Configure({"step_s": 2.0})])
def test_commands_come_back_as_they_were(command: Any) -> None:
    assert unpack(*pack(command)) == command


@pytest.mark.parametrize(
    "samples",
    [np.array([0.5, -1.0, 0.25], np.float32), np.array([0.1, 2.0, 1e-9], np.float32), np.zeros(0, np.float32)],
)
def test_audio_comes_back_exactly(samples: Any) -> None:
    command = unpack(*pack(Audio(samples)))
    assert isinstance(command, Audio)
    np.testing.assert_array_equal(command.samples, samples)


@pytest.mark.parametrize(
    "value", [os.system, subprocess.Popen, Path.unlink, eval, np.save, to_dict, Journal, np.lib.npyio.NpzFile]
)
def test_a_state_cannot_run_programs(value: Any) -> None:
    data = io.BytesIO(pickle.dumps(value))
    with pytest.raises(pickle.UnpicklingError):
        StateLoader(data).load()


IMPORTED = """
import io, sys
from whispertide.server import journal, journal_values
for module in sys.argv[1:]:
    assert module not in sys.modules
    try:
        journal_values.StateLoader(io.BytesIO(f"c{module}\\n_reconstruct\\n.".encode())).load()
    except Exception as error:
        print(type(error).__name__)
    assert module not in sys.modules
"""


@pytest.mark.slow
def test_a_state_imports_nothing() -> None:
    """A tampered journal names a module that nobody has imported yet: that alone would run its code."""
    modules = ["numpy.f2py.crackfortran", "numpy.testing.print_coercion_tables", "whispertide_lab.training.network"]
    done = subprocess.run([sys.executable, "-c", IMPORTED, *modules], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["UnpicklingError"] * len(modules)


def test_two_servers_cannot_share_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    try:
        with pytest.raises(OptionError, match="journal"):
            Journal(tmp_path, busy_s=0.1)
    finally:
        journal.close()
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match="journal"):
        Journal(tmp_path / "file")


# --- a real process, killed ------------------------------------------------------------------------------------------


def start_process(folder: Path) -> tuple["subprocess.Popen[str]", int]:
    """A server, and its port."""
    command = [sys.executable, "-m", "whispertide.cli.main", "serve", "--model", "nano.en", "--port", "0"]
    settings = ["--journal", str(folder), "--set", "beam=1", "--set", "framing=bare", "--recipe", "whisper-streaming"]
    process = subprocess.Popen([*command, *settings], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("serving "):
            return process, int(line.rpartition(":")[2])
    raise AssertionError("the server did not start")


@pytest.mark.slow
async def test_kill_9(tmp_path: Path) -> None:
    from whispertide.audio.file import load_audio

    clip = load_audio(Path(__file__).parents[1] / "clips" / "quiet.flac")
    audio = (np.clip(clip, -1, 1) * 32767).astype("<i2").tobytes()
    truth = (Path(__file__).parents[1] / "clips" / "quiet.txt").read_text().split()
    process, port = start_process(tmp_path)
    async with connect(f"ws://127.0.0.1:{port}/ws", proxy=None) as socket:
        one = Client(socket)
        for start in range(0, len(audio) // 2, 6_400):
            await one.send(audio[start : start + 6_400])
        await accepted(one, len(audio) // 4 - 16_000)
        process.send_signal(signal.SIGKILL)
        await one.rest()
    process.wait()
    process.stderr.close()  # type: ignore[union-attr]
    process, port = start_process(tmp_path)
    try:
        async with connect(f"ws://127.0.0.1:{port}/ws{back(one)}", proxy=None) as socket:
            again = Client(socket)
            received = 2 * (await again.until("session"))["received"]
            assert received >= len(audio) // 2 - 32_000
            for start in range(received, len(audio), 6_400):
                await again.send(audio[start : start + 6_400])
            await again.send({"type": "finish"})
            assert await again.rest() == 1000
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()  # type: ignore[union-attr]
    events = in_order(one.events, again.events)
    assert complete(events)
    assert events[-1].duration == len(clip)  # type: ignore[attr-defined]
    heard = text_of(events)
    assert len(heard) >= len(truth) // 2
    assert process.returncode == 0
