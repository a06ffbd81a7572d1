"""The console's page in a real browser: what a person sees, clicks and hears."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from headrace.pipeline.console.once import write_once
from headrace.pipeline.console.ports import LandedOfShard, LandedRange, ParsedCount
from headrace.pipeline.console.serve import bound, served_beside
from headrace.pipeline.console.server import Console, app_of
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import TRIM_HORIZON
from headrace.pipeline.errors import Throttled
from tests.console.browser import browser, opened, opened_file
from tests.console.scenes import NOW, Scene, a_scene, an_orphan, an_unread

__all__ = ["browser"]

KEY = "shardId-000000000004"


def damaged(open_shards: int = 4, workers: int = 2) -> Scene:
    """A stuck lock, an orphan lease, a shard whose records are about to leave the stream, and a silent worker."""
    scene = a_scene(open_shards, workers)
    an_orphan(scene)
    an_unread(scene, next(lease.key for lease in scene.tables.leases if not lease.has_ended), 22.0)
    return scene


def looked_at(scene: Scene) -> Console:
    """The scene's console after looks of three minutes, in which east-2 and the lock stood still."""
    console = scene.console()
    for _ in range(6):
        console.watch.report()
        scene.later(30, without=("east-2",), lock=False)
    return console


def again(page: Page) -> None:
    """Look again without waiting for the page's own clock."""
    page.evaluate("lookAgain()")


def problems(page: Page, level: str) -> set[str]:
    return {item.get_attribute("data-code") or "" for item in page.locator(f"#problems li.{level}").all()}


def test_planted_damage_is_red_and_a_click_leads_to_the_shard(browser: Browser):
    with opened(browser, looked_at(damaged())) as page:
        assert {"leader-stuck", "retention-at-risk", "orphan-leases", "workers-still"} <= problems(
            page, "bad"
        )
        assert page.locator("#status").inner_text().endswith("need a person")
        assert page.locator("#leader.level-bad").count() == 1
        page.locator("#problems li[data-code=orphan-leases] button").click()
        page.wait_for_selector("#shard-body dl")
        assert page.locator("#shard-title").inner_text() == "shardId-000000009999"
        assert "doesn't list its shard any more" in page.locator("#shard-body").inner_text()
        page.keyboard.press("Escape")
        assert page.locator("#shard").is_hidden()
        assert page.evaluate("document.activeElement.closest('li').dataset.code") == "orphan-leases", (
            "focus comes back"
        )


def test_beside_a_shard_of_unknown_lag_the_page_never_says_that_nothing_is_behind(browser: Browser):
    scene = a_scene(4)
    is_open = [lease.key for lease in scene.tables.leases if not lease.has_ended]
    for key in is_open:
        scene.change(key, looked_at=NOW, behind_ms=0)
    console = scene.console(peeking=False)
    with opened(browser, console) as page:
        tile = page.locator(".tile", has_text="Greatest lag")
        assert "0 s" in tile.inner_text()
        scene.change(is_open[0], looked_at=None, behind_ms=None, checkpoint=TRIM_HORIZON)
        scene.later(30)
        again(page)
        tile.get_by_text("1 shard of unknown lag").wait_for()
        assert "unknown" in tile.inner_text().splitlines()
        assert page.locator("#workers tbody td", has_text="unknown").count() == 1


def test_a_person_clicks_through_the_whole_page(browser: Browser):
    scene = a_scene(60, 6)
    console = scene.console(dagster="http://127.0.0.1:3000")
    with opened(browser, console) as page:
        # The river: a click on a band opens the shard.
        place = page.evaluate(
            "(() => { const b = river.bands.find(({shard}) => shard.key === 'shardId-000000000001');"
            " const r = river.canvas.getBoundingClientRect();"
            " return [r.left + (b.left + b.right) / 2, r.top + (b.top + b.bottom) / 2]; })()"
        )
        page.mouse.click(*place)
        page.wait_for_selector("#shard-body dl")
        assert page.locator("#shard-title").inner_text() == "shardId-000000000001"
        page.locator("#close").click()
        page.locator("#even").click()
        assert page.locator("#even").get_attribute("aria-pressed") == "true"
        # The heat map: by hash key, and in another colour.
        page.locator("#by-hash").click()
        assert page.evaluate("heat.labels.length") == 0
        page.locator("#colour").select_option("kbps")
        assert "125 to 625" in page.locator("#heat-legend").inner_text()
        # The list: found by worker, page by page.
        page.locator("#find").fill("east-3")
        workers = page.locator("#list tbody tr td:nth-child(3)").all_inner_texts()
        assert workers
        assert set(workers) == {"east-3"}
        page.locator("#find").fill("")
        page.locator("#open-only").uncheck()
        before = page.locator("#list tbody tr").first.inner_text()
        page.locator("#later").click()
        assert page.locator("#list tbody tr").first.inner_text() != before


class ALake:
    """A lake table in memory: one range of each shard, and a typed table."""

    def of(self, lease: Lease) -> LandedOfShard:
        landed = LandedRange(NOW, "landed", 1_200, 64_000, "49", "run-17", ("a.parquet", "b.parquet"))
        return LandedOfShard(
            "lake.orders", "49", (landed,), 3, 5_000, (ParsedCount("lake.typed", 1_190, 10),)
        )


def test_a_shards_page_leads_into_dagster_and_tells_what_was_parsed(browser: Browser):
    console = a_scene(4).console(lake=ALake().of, dagster="http://127.0.0.1:3000")
    with opened(browser, console) as page:
        page.locator("#list button.link", has_text=KEY).click()
        page.wait_for_selector("#shard-body table")
        text = page.locator("#shard-body").inner_text()
        assert "5,000 rows, up to 49" in text
        assert "lake.typed: 1,190 rows parsed, 10 in quarantine" in text
        assert "3 older ranges" in text
        link = page.locator("#shard-body a")
        assert link.get_attribute("href") == "http://127.0.0.1:3000/runs/run-17"
        assert link.get_attribute("rel") == "noopener"
        page.locator("#shard-body summary").click()
        assert "b.parquet" in page.locator("#shard-body").inner_text()


def test_a_link_to_a_shard_opens_it(browser: Browser):
    with opened(browser, a_scene(4).console()) as page:
        page.goto(f"{page.url}#shard={KEY}")
        page.reload()
        page.wait_for_selector("#shard-body dl")
        assert page.locator("#shard-title").inner_text() == KEY


def test_the_keyboard_leads_from_shard_to_shard_and_each_one_is_told(browser: Browser):
    with opened(browser, a_scene(4).console()) as page:
        page.locator("#river").focus()
        page.keyboard.press("ArrowDown")
        first = page.locator("#told").inner_text()
        page.keyboard.press("ArrowLeft")
        parent = page.locator("#told").inner_text()
        assert first
        assert parent != first
        page.keyboard.press("Enter")
        page.wait_for_selector("#shard-body dl")
        assert page.locator("#shard-title").inner_text() in parent
        page.keyboard.press("Escape")
        page.locator("#heat").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert (
            "read by" in page.locator("#told").inner_text()
            or "assigned" in page.locator("#told").inner_text()
        )


def test_a_handover_appears_while_it_happens(browser: Browser):
    scene = a_scene(4)
    with opened(browser, scene.console()) as page:
        scene.change(KEY, owner="east-1", checkpoint_owner="east-2")
        scene.later(10)
        again(page)
        page.locator("#events li", has_text="begins to hand it over").wait_for()
        page.locator("#list tr", has_text="handed over").wait_for()


def test_an_error_of_aws_is_a_sentence_and_the_page_goes_on_with_the_last_look(browser: Browser):
    scene = a_scene(4)
    with opened(browser, scene.console()) as page:
        scene.fails = Throttled("table orders-app: throttled after 3 attempts")
        scene.later(10)
        again(page)
        page.wait_for_selector("#trouble:not([hidden])")
        assert "throttled after 3 attempts" in page.locator("#trouble").inner_text()
        assert "last good look" in page.locator("#trouble").inner_text()
        assert page.locator("#list tbody tr").count() == 4
        scene.fails = None
        scene.later(10)
        again(page)
        page.wait_for_selector("#trouble", state="hidden")


def test_a_mistake_of_the_console_and_its_end_are_told_apart(browser: Browser):
    scene = a_scene(4)
    console = scene.console()
    with served_beside(app_of(console), bound("127.0.0.1", 0)) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector(".tile")
        console.watch.streams = None  # type: ignore[assignment] # a mistake of the console
        scene.later(10)
        again(page)
        page.locator("#trouble", has_text="failed to answer").wait_for()
        assert "doesn't answer" not in page.locator("#trouble").inner_text()
    again(page)
    page.locator("#trouble", has_text="Its command may have ended").wait_for()
    assert page.locator("#list tbody tr").count() == 4, "the last look stays"
    page.close()


class ALakeAsKinesisNumbersIt(ALake):
    """The lake table with sequence numbers of the length that Kinesis gives."""

    def of(self, lease: Lease) -> LandedOfShard:
        return replace(super().of(lease), position="49680617171784852144516231952763299816174591357176774674")


def test_a_shards_page_shows_long_numbers_whole(browser: Browser):
    with opened(browser, a_scene(4).console(lake=ALakeAsKinesisNumbersIt().of)) as page:
        page.locator("#list button.link", has_text=KEY).click()
        page.wait_for_selector("#shard-body table")
        assert (
            page.evaluate(
                "(() => { const b = document.getElementById('shard-body'); return b.scrollWidth - b.clientWidth; })()"
            )
            <= 0
        )


def test_names_with_markup_are_shown_as_they_are(browser: Browser):
    scene = a_scene(4)
    scene.change(KEY, owner="<img src=x onerror=alert(1)>")
    with opened(browser, scene.console()) as page:
        assert "<img src=x onerror=alert(1)>" in page.locator("#list").inner_text()
        assert page.locator("img").count() == 0


@pytest.mark.slow
def test_the_page_of_4000_shards_has_few_elements_and_every_shard_has_a_cell(browser: Browser):
    scene = damaged(4_000, 80)
    with opened(browser, scene.console()) as page:
        assert page.evaluate("document.querySelectorAll('*').length") < 900
        assert page.evaluate("heat.cells.length") == 4_001
        assert page.evaluate("heat.cells.every((cell) => cell.right <= heat.canvas.clientWidth + 1)")
        assert page.evaluate("river.bands.length") == len(scene.shards) + 1


def test_nothing_is_asked_while_nobody_sees_the_page(browser: Browser):
    with opened(browser, a_scene(4).console()) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
        again(page)
        page.evaluate("new Promise((done) => requestAnimationFrame(done))")
        assert asked == []
        page.evaluate("Object.defineProperty(document, 'hidden', {value: false, configurable: true})")
        with page.expect_request("**/api/look*"):
            again(page)


def test_one_file_shows_the_same_without_a_server(browser: Browser, tmp_path: Path):
    scene = damaged()
    file = tmp_path / "look.html"
    write_once(scene.console(), file)
    with opened_file(browser, file) as page:
        assert "orphan-leases" in problems(page, "bad")
        page.locator("#list button.link").first.click()
        page.wait_for_selector("#shard-body dl")
        assert "as of 2026-03-01 12:00:00 UTC" in page.locator("#status").inner_text()


def test_light_and_dark_follow_the_system_and_the_button_and_can_be_read(browser: Browser):
    contrast = """() => {
      const light = (colour) => { const [r, g, b] = colour.match(/[\\d.]+/g).map((v) => { v /= 255;
        return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ground = (one) => { for (; one; one = one.parentElement) { const c = getComputedStyle(one).backgroundColor;
        if (!c.startsWith('rgba(0, 0, 0, 0')) return c; } return 'rgb(255,255,255)'; };
      const bad = [];
      for (const one of document.querySelectorAll('h1, h2, p, li, td, th, dt, dd, label, time, button')) {
        if (!one.innerText || !one.offsetParent || one.closest('.hidden') || one.disabled) continue;
        const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(one.tagName + ' ' + one.innerText.slice(0, 40));
      }
      return bad;
    }"""
    for theme in ("light", "dark"):
        with opened(browser, looked_at(damaged()), theme=theme) as page:
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            assert page.evaluate(contrast) == []
            page.locator("#theme").click()
            assert page.evaluate("document.documentElement.dataset.theme") != theme


def test_a_narrow_window_needs_no_sideways_scrolling(browser: Browser):
    with opened(browser, damaged().console(), width=420) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
