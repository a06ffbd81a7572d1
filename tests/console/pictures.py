"""Renews the pictures of the console in the documents: python -m tests.console.pictures. It needs Chromium."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, Page

from headrace.pipeline.console.server import Console
from tests.console.browser import launched, opened
from tests.console.scenes import a_new_lease, a_scene, an_orphan, an_unread

DOCS = Path(__file__).parents[2] / "docs"
_WIDTH = 1120


def a_fleet(open_shards: int, workers: int, *, with_damage: bool) -> Console:
    scene = a_scene(open_shards, workers)
    console = scene.console()
    planted: set[str] = set()
    if with_damage:
        keys = [lease.key for lease in scene.tables.leases if not lease.has_ended]
        an_unread(scene, keys[6], 21.0)
        an_unread(scene, keys[9], 5.0)
        planted = {keys[6], keys[9]}
        an_orphan(scene)
        a_new_lease(scene, keys[4])
    for _ in range(6):
        console.watch.report()
        # The other shards keep their distance, as those of living workers do.
        scene.unread = {
            key: since if since is None or key in planted else since + timedelta(seconds=30)
            for key, since in scene.unread.items()
        }
        scene.later(30, lock=not with_damage, without=("east-2",) if with_damage else ())
    return console


def main() -> None:
    with launched() as browser:
        take(browser, a_fleet(24, 4, with_damage=True), "console.png", river_and_tiles)
        take(browser, a_fleet(4_000, 80, with_damage=True), "console-4000.png", heat_map)


def river_and_tiles(page: Page) -> dict[str, float]:
    # Without the sentences between them, which a reader of a document can't act on.
    page.evaluate("document.querySelector('[aria-labelledby=problems-title]').hidden = true")
    return part(page, "#tiles", "#river-legend")


def heat_map(page: Page) -> dict[str, float]:
    return part(page, "[aria-labelledby=heat-title]", "[aria-labelledby=heat-title]")


def part(page: Page, first: str, last: str) -> dict[str, float]:
    """The part of the page from one element to another."""
    top = page.locator(first).bounding_box()
    bottom = page.locator(last).bounding_box()
    assert top is not None
    assert bottom is not None
    begin = top["y"] - 10
    return {"x": 0, "y": begin, "width": _WIDTH, "height": bottom["y"] + bottom["height"] + 16 - begin}


def take(browser: Browser, console: Console, name: str, clip: Callable[[Page], dict[str, float]]) -> None:
    with opened(browser, console, width=_WIDTH) as page:
        page.screenshot(path=DOCS / name, full_page=True, clip=clip(page))  # type: ignore[arg-type]
    print(f"written: {DOCS / name} ({(DOCS / name).stat().st_size / 1000:.0f} kB)")


if __name__ == "__main__":
    main()
