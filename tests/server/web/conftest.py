"""One server and one browser for all tests of the page that can share them."""

from collections.abc import Iterator

import pytest

from headless_chromium import Page, page
from served import OfflineModel
from served_page import FAKE_MICROPHONE, STATE, serving, start_anew


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with serving(model=OfflineModel()) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    with page(*FAKE_MICROPHONE) as opened:
        yield opened


@pytest.fixture
def tab(browser: Page, address: str) -> Iterator[Page]:
    """The page, ready. Afterwards: nothing went wrong inside, and nobody else was asked for anything."""
    browser.go("about:blank")  # a page of another server may still ask for that
    browser.complaints.clear()
    browser.requests.clear()
    browser.go(address)
    browser.wait(f"{STATE} === 'ready'")
    yield browser
    start_anew(browser)
    assert not browser.complaints
    own = (address, address.replace("http:", "ws:"), "blob:", "data:")  # data: the browser's own icons of the player
    assert [url for url in browser.requests if not url.startswith(own)] == []
