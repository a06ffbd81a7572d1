"""A real browser for tests: Chromium, as the machine has it, driven by Playwright.

Playwright would bring a browser of its own from a place that isn't a package registry, so the machine's is used. Where there
is none, the tests are skipped with a sentence. CI's script installs one, and names it by the variable.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from headrace.pipeline.console.serve import bound, served_beside
from headrace.pipeline.console.server import Console, app_of

VARIABLE = "HEADRACE_TEST_BROWSER"
"""The variable with the path of another Chromium or Chrome."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = f"no Chromium was found: `apt-get install chromium`, or set {VARIABLE} to the path of a Chromium or Chrome"
# In a container, and as root, Chromium has no sandbox; the pages are the project's own.
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")


def chromium() -> str | None:
    named = os.environ.get(VARIABLE)
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Browser]:
    path = chromium()
    assert path is not None, MISSING
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(MISSING)
    with launched() as started:
        yield started


@contextmanager
def opened(browser: Browser, console: Console, *, theme: str = "light", width: int = 1280) -> Iterator[Page]:
    """The console's page. The block fails if the page's code has, or if its policy refused something."""
    with (
        served_beside(app_of(console), bound("127.0.0.1", 0)) as address,
        a_page(browser, theme=theme, width=width) as page,
    ):
        page.goto(address)
        page.wait_for_selector(".tile")
        yield page


@contextmanager
def opened_file(browser: Browser, file: Path) -> Iterator[Page]:
    with a_page(browser) as page:
        page.goto(file.as_uri())
        page.wait_for_selector(".tile")
        yield page


@contextmanager
def a_page(browser: Browser, *, theme: str = "light", width: int = 1280) -> Iterator[Page]:
    troubles: list[str] = []
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on(
        "console",
        lambda message: troubles.append(message.text) if message.type in {"error", "warning"} else None,
    )
    try:
        yield page
    finally:
        page.close()
    assert troubles == []
