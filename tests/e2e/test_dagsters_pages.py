"""What a person sees in Dagster's real UI, by clicks: the daemon ticks, and a browser looks at each page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from headrace.pipeline.local.endpoint import LocalAws
from tests.console.browser import browser
from tests.e2e.dagster_pages import NAME, PATIENCE, DagsterPages, an_app, fill, opened, served
from tests.eventually import eventually

__all__ = ["browser"]

pytestmark = pytest.mark.slow

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def address(aws: LocalAws, _environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    app = an_app(aws, tmp_path_factory.mktemp("pages") / NAME)
    try:
        fill(app)
        with served(app) as address:
            yield address
    finally:
        app.close()


@pytest.fixture
def pages(address: str, browser: Browser) -> Iterator[DagsterPages]:
    # The address comes first: Playwright's loop works in this thread, and Dagster can't end its own loops of a run beside it.
    with opened(browser, address) as pages:
        yield pages


def test_the_graph_has_each_group_and_in_them_the_tables_the_upkeep_and_the_proof(pages: DagsterPages):
    pages.graph()


def test_the_checks_tab_has_a_sentence_for_each_check(pages: DagsterPages):
    pages.asset(NAME, "records", tab="Checks")
    pages.page.get_by_text("no_gaps").first.click()
    expect(pages.page.get_by_text("No record is missing between two ranges of a shard")).to_be_visible()
    expect(pages.page.get_by_text("Passed", exact=True).first).to_be_visible()


def test_the_proof_and_the_upkeep_have_their_own_checks(pages: DagsterPages):
    for asset, check in (("proof", "last_proof"), ("upkeep", "upkeep")):
        pages.asset(NAME, asset, tab="Checks")
        expect(pages.page.get_by_text("Checks (1)")).to_be_visible()
        expect(pages.page.get_by_text(check, exact=True).first).to_be_visible()


def test_a_run_has_a_table_of_its_shards_and_draws_them_as_an_image(pages: DagsterPages):
    pages.asset(NAME, "records", tab="Events")
    pages.newest_event_with("shards of the run")
    expect(
        pages.page.get_by_role("columnheader", name="behind").or_(pages.page.get_by_text("caught up")).first
    ).to_be_visible()
    pages.page.get_by_text("[Show Markdown]").click()
    image = pages.page.get_by_role("img", name="shards and their parents")
    expect(image).to_be_visible()
    assert image.evaluate("image => image.naturalWidth") > 300, "two generations, and no broken image"


def test_the_run_page_has_the_table_of_shards_and_the_cost(pages: DagsterPages):
    pages.asset(NAME, "records", tab="Events")
    pages.newest_event_with("shards of the run")
    pages.page.locator("xpath=//a[contains(@href, '/runs/')]").first.click()
    pages.page.wait_for_url("**/runs/*")
    expect(pages.page.get_by_text("API calls", exact=True).first).to_be_visible()
    expect(pages.page.get_by_text("shards of the run", exact=True).first).to_be_visible()


def test_plots_of_the_stream_show_lag_and_rate(pages: DagsterPages):
    pages.asset("kinesis", NAME, tab="Overview")
    pages.page.get_by_text("Plots", exact=True).first.click()
    for plot in ("rate (KB/s)", "lag (seconds)"):
        expect(pages.page.get_by_text(f"{NAME}: {plot}").first).to_be_visible()


@pytest.mark.parametrize(
    ("sensor", "sentence"), [("leader", "nothing to do"), ("worker_w1", "nothing due"), ("watch", "checks")]
)
def test_the_list_of_a_sensors_ticks_shows_their_sentences(pages: DagsterPages, sensor: str, sentence: str):
    pages.sensor(sensor)
    expect(
        pages.page.get_by_role("row").filter(has_text=sentence).or_(pages.page.get_by_text(sentence)).first
    ).to_be_visible()


def test_the_launchpad_of_a_replay_has_its_config_and_no_error(pages: DagsterPages):
    pages.launchpad("replay")
    expect(pages.page.get_by_text("No errors").first).to_be_visible()
    expect(pages.page.get_by_text("from_stream").first).to_be_visible()


def test_a_backfill_of_all_shards_is_started_by_clicks_and_succeeds(pages: DagsterPages):
    pages.backfill_all(NAME, "records")
    eventually(
        lambda: pages.backfills()[:1] == ["COMPLETED_SUCCESS"], "the backfill has succeeded", within=PATIENCE
    )
