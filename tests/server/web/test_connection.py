"""`socket.js` and `server.js` with sockets and clocks that the test holds: late ticks, silence, close codes."""

from collections.abc import Iterator

import pytest

from headless_chromium import SLOW_IN_CHROMIUM, Page

pytestmark = SLOW_IN_CHROMIUM

# `sockets`: those that the session asked for. `timers`: [ms, act]; none runs by itself. `now`: the clock.
HELD = """import("/socket.js").then(({ LiveSession }) => {
  Object.assign(window, { sockets: [], timers: [], now: 1000, asked: 0 });
  window.setInterval = () => 0; // a hidden tab: no tick comes in time
  window.setTimeout = (act, ms) => timers.push([ms, act]);
  window.clearTimeout = (number) => number && (timers[number - 1] = [0, null]);
  performance.now = () => now;
  const server = {
    connect(query) {
      const send = (data) => (socket.bufferedAmount += data.byteLength ?? 0);
      const socket = { query, readyState: 0, bufferedAmount: 0, send, close: () => (socket.readyState = 3) };
      sockets.push(socket);
      return socket;
    },
    whyRefused: async () => (asked++, { kind: "unreachable" }),
  };
  window.session = new LiveSession(server, () => ({}));
  window.tell = (message) => sockets.at(-1).onmessage({ data: JSON.stringify(message) });
  window.stand = () => {
    sockets.at(-1).readyState = 1;
    sockets.at(-1).onopen();
    tell({ type: "session", session: "one", received: 0 });
  };
})"""
DEADLINE = "timers.find(([ms]) => ms === 10000)"


@pytest.fixture
def held(browser: Page, address: str) -> Iterator[Page]:
    browser.go(f"{address}docs")  # nothing of the page runs
    browser.evaluate(HELD)
    yield browser
    browser.evaluate("session.abandon()")


def test_a_session_that_went_on_elsewhere_is_followed(held: Page) -> None:
    """No tab shares its id, so only the server can have lost it: to another one, or with its journal."""
    held.evaluate("stand(), sockets[0].onclose({ code: 4001, reason: '' })")
    assert held.evaluate("session.state") == "away"
    held.evaluate("timers.at(-1)[1]()")
    assert held.evaluate("sockets[1].query.session") == "one"


@pytest.mark.parametrize("kind", ["ahead", "behind"])
def test_a_session_that_lacks_events_is_gone_on_with(kind: str, held: Page) -> None:
    """Words that are heard again stand there already."""
    held.evaluate("window.words = [], session.addEventListener('event', ({ detail }) => words.push(...detail.words))")
    say = """window.say = (seq, start) => tell({
      type: "confirmed", seq, at: start + 1, words: [{ text: "w" + start, start, end: start + 0.5, probability: 1 }],
    })"""
    held.evaluate(f"stand(), {say}, say(0, 0), say(1, 1), say(2, 2)")
    held.evaluate(f"tell({{ type: 'problem', kind: '{kind}', message: '', fatal: true, last_seq: 0 }})")
    held.evaluate("sockets[0].onclose({ code: 4005, reason: '' }), timers.at(-1)[1]()")
    assert held.evaluate("sockets[1].query") == {"session": "one", "last_seq": 0}
    held.evaluate("stand(), say(1, 1), say(2, 2), say(3, 3)")
    assert held.evaluate("words.map(({ text }) => text)") == ["w0", "w1", "w2", "w3"]


def test_a_file_goes_on_in_a_hidden_tab(held: Page) -> None:
    held.evaluate("stand(), session.push(new Int16Array(20 * 16000))")
    held.evaluate("sockets[0].bufferedAmount = 0")
    assert held.evaluate("tell({ type: 'received', received: 16000 }), sockets[0].bufferedAmount") > 0


def test_a_late_tick_does_not_hang_up(held: Page) -> None:
    held.evaluate("stand(), now += 60000, session.push(new Int16Array(1600))")
    assert held.evaluate("sockets[0].readyState") == 1, "nothing was to be answered until now"
    held.evaluate("now += 60000, session.push(new Int16Array(1600))")
    assert held.evaluate("sockets[0].readyState") == 3


def test_a_connection_that_never_stands_is_given_up(held: Page) -> None:
    held.evaluate(f"{DEADLINE}[1]()")
    held.wait("session.state === 'failed'")
    assert held.evaluate("[asked, sockets[0].readyState]") == [1, 3]


def test_a_session_that_stands_has_no_deadline(held: Page) -> None:
    assert held.evaluate(f"stand(), {DEADLINE}") is None


def test_a_network_that_comes_back_is_used_at_once(held: Page) -> None:
    """The connection under way was begun on one that is gone."""
    held.evaluate("stand(), sockets[0].onclose({}), timers.at(-1)[1]()")
    held.evaluate("dispatchEvent(new Event('online'))")
    assert held.evaluate("sockets.map(({ readyState }) => readyState).slice(1)") == [3, 0]
    held.evaluate("stand(), dispatchEvent(new Event('online'))")
    assert held.evaluate("[sockets.length, session.state]") == [3, "live"]


def test_a_server_that_does_not_answer_is_not_waited_for(browser: Page, address: str) -> None:
    browser.go(f"{address}docs")
    asked = browser.evaluate("""import("/server.js").then(async ({ Server }) => {
      const server = new Server(() => "");
      AbortSignal.timeout = (ms) => (window.patience = ms, AbortSignal.abort());
      const refused = await server.whyRefused();
      window.WebSocket = function () { this.close = () => this.onclose(); };
      window.setTimeout = (act) => act();
      const hello = await server.hello().catch((problem) => problem);
      return [refused.kind, hello.kind, patience];
    })""")
    assert asked == ["unreachable", "unreachable", 5000]
