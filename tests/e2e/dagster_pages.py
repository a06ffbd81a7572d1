"""Dagster's real UI of an application that has lived a little: two shards, one of them split, a typed table with rows that it
couldn't take, a lineage table, an upkeep and a proof.

    python -m tests.e2e.dagster_pages    renews the pictures of Dagster's pages in the documents; it needs Chromium
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import dagster as dg
from playwright.sync_api import Browser, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from headrace.assets.names import lineage_key
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.console.browser import launched
from tests.e2e.app import App
from tests.eventually import eventually
from tests.ports import free_port

DOCS = Path(__file__).parents[2] / "docs"
NAME = "shop"
GROUPS = ("shop_upkeep", "shop_typed", "shop_landing", "shop_coordination", "kinesis")
WIDTH, HEIGHT = 1280, 820
PATIENCE = 240.0
"""Seconds: Dagster's processes start one after the other, on a machine that may be busy."""
_TYPED = {"name": "sold", "table": "lake.sold", "schema": "id BIGINT, item STRING"}
_BAD = b'{"id": "one", "item": 7}'


@dataclass(frozen=True, slots=True)
class DagsterPages:
    """Dagster's UI in a browser."""

    page: Page
    address: str

    def graph(self) -> None:
        """The asset graph, with each group opened by a click."""
        self._from_the_side("Lineage")
        for group in GROUPS:
            self.page.locator("svg").get_by_text(group, exact=True).first.click()
            self.page.wait_for_url(f"**expanded=*{group}*")
        # Opening a group moves the graph; anew, all of it is shown.
        self.page.reload()
        for asset in ("records", "lineage", "sold_quarantine", "upkeep", "proof"):
            self.page.locator("svg").get_by_text(asset, exact=True).first.wait_for()

    def asset(self, *key: str, tab: str) -> None:
        self.page.goto("/".join((self.address, "assets", *key)))
        self.page.get_by_role("tab", name=tab, exact=True).first.click()

    def newest_event_with(self, text: str) -> None:
        """Of the events of an asset: the newest with this text in its metadata."""
        events = self.page.get_by_text(re.compile(r"^[A-Z][a-z]{2} \d+, \d+:\d\d [AP]M$"))
        events.first.wait_for()
        for event in events.all():
            event.click()
            with suppress(PlaywrightTimeout):
                self.page.get_by_text(text, exact=True).first.wait_for(timeout=5_000)
                return
        raise AssertionError(f"no event of {self.page.url} tells of {text!r}")

    def sensor(self, name: str) -> None:
        self._from_the_side("Automation")
        self.page.get_by_role("link").filter(has_text=f"{NAME}_{name}").first.click()
        self.page.get_by_text("Frequency", exact=True).wait_for()

    def backfill_all(self, *key: str) -> None:
        """Start a backfill of all partitions of an asset, as a person does by three clicks."""
        self.asset(*key, tab="Overview")
        self.page.get_by_role("button", name="Materialize").first.click()
        launch = self.page.get_by_role("button", name="Launch backfill")
        launch.wait_for()
        self.page.get_by_role("button", name="All", exact=True).last.click()
        launch.click()
        launch.wait_for(state="hidden")

    def backfills(self) -> list[str]:
        """The statuses of all backfills, the newest first."""
        query = "{partitionBackfillsOrError {... on PartitionBackfills {results {status}}}}"
        body = json.dumps({"query": query}).encode()
        request = Request(f"{self.address}/graphql", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            found = json.load(answer)["data"]["partitionBackfillsOrError"]["results"]
        return [backfill["status"] for backfill in found]

    def launchpad(self, job: str) -> None:
        self._from_the_side("Jobs")
        self.page.get_by_role("link").filter(has_text=f"{NAME}_{job}").first.click()
        self.page.get_by_role("tab", name="Launchpad").first.click()

    def _from_the_side(self, name: str) -> None:
        self.page.goto(f"{self.address}/deployment")
        self.page.get_by_role("link", name=name, exact=True).or_(
            self.page.locator("a", has=self.page.get_by_text(name, exact=True))
        ).first.click()


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[DagsterPages]:
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    page.set_default_timeout(PATIENCE * 1000)
    try:
        yield DagsterPages(page, address)
    finally:
        page.close()


def fill(app: App) -> None:
    """Let the application live, in this process."""
    app.settle()
    _put(app, range(60))
    app.read()
    app.split(0)
    _put(app, range(60, 100), bad=(_BAD, b"not JSON"))
    app.read_all()
    # The lag of each shard is known now: its worker has just looked into it.
    app.tick("watch")
    for job in ("parse", "upkeep", "prove"):
        done = app.defs.resolve_job_def(f"{NAME}_{job}").execute_in_process(instance=app.instance)
        assert done.success
    lineage = app.defs.get_assets_def(lineage_key(app.settings))
    assert dg.materialize(
        [lineage], instance=app.instance, resources=app.defs.resources, selection=[lineage.key]
    ).success
    app.tick("watch")


def _put(app: App, ids: Sequence[int], *, bad: Sequence[bytes] = ()) -> None:
    records = [json.dumps({"id": number, "item": f"item {number}"}).encode() for number in ids]
    for number, payload in enumerate((*records, *bad)):
        app.kinesis.put_record(StreamName=app.name, Data=payload, PartitionKey=str(number))
        app.put.append(payload.decode())


@contextmanager
def served(app: App) -> Iterator[str]:
    """Dagster with its daemon, as a process of its own. Gives the address of its UI."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    app.processes.start("dev", "-m", "headrace.pipeline.definitions", "-h", "127.0.0.1", "-p", str(port))

    def is_up() -> bool:
        try:
            with urlopen(f"{address}/server_info", timeout=5):
                return True
        except URLError:
            return False

    eventually(is_up, "Dagster's UI answers", within=PATIENCE)
    yield address


def an_app(aws: LocalAws, home: Path) -> App:
    home.mkdir()
    return App(
        name=NAME,
        home=home,
        aws=aws,
        times={"worker_tick": "5s", "leader_tick": "5s", "lease_duration": "15s", "launch_grace": "20s"},
        more={"parse": [_TYPED], "dagster": {"owners": ["team:data"]}},
    )


@contextmanager
def dagster_of_its_own(folder: Path) -> Iterator[str]:
    """A filled application with a stand-in and a Spark server of its own."""
    with ExitStack() as stack:
        aws = stack.enter_context(local_aws("--transition", "0"))
        os.environ.update(aws.environment)
        stack.enter_context(spark_of_its_own(folder / "spark"))
        app = an_app(aws, folder / NAME)
        stack.callback(app.close)
        fill(app)
        yield stack.enter_context(served(app))


def take(pages: DagsterPages, name: str, height: int = HEIGHT) -> None:
    # Charts and images come a moment after the text.
    pages.page.wait_for_load_state("networkidle")
    file = DOCS / "pictures" / name
    pages.page.screenshot(path=file, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
    print(f"written: {file} ({file.stat().st_size / 1000:.0f} kB)")


def picture_all(pages: DagsterPages) -> None:
    pages.graph()
    take(pages, "dagster-graph.png")
    pages.asset(NAME, "records", tab="Partitions")
    pages.page.get_by_text("shardId-000000000003", exact=True).first.click()
    pages.page.get_by_text("lag (seconds)", exact=True).first.wait_for()
    # Below are the table's files, in a folder of this host.
    take(pages, "dagster-partitions.png", height=760)
    pages.asset(NAME, "records", tab="Checks")
    pages.page.get_by_text("no_gaps").first.click()
    take(pages, "dagster-checks.png")
    pages.asset(NAME, "records", tab="Events")
    pages.newest_event_with("shards of the run")
    pages.page.get_by_text("[Show Markdown]").click()
    take(pages, "dagster-run.png")
    pages.page.keyboard.press("Escape")
    pages.sensor("watch")
    pages.page.get_by_text(re.compile("checks (hold|fail)")).first.wait_for(timeout=PATIENCE * 1000)
    take(pages, "dagster-sensor.png")


def main() -> None:
    (DOCS / "pictures").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="headrace-pages-") as folder,
        dagster_of_its_own(Path(folder)) as address,
        launched() as browser,
        opened(browser, address) as pages,
    ):
        picture_all(pages)


if __name__ == "__main__":
    main()
