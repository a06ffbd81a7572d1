"""Dagster's real UI of an application that has lived a little: two shards, one of them split, a typed table with rows that it
couldn't take, a lineage table, an upkeep and a proof.

    python -m tests.e2e.dagster_pages    renews the pictures of Dagster's pages in the documents; it needs Chromium
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import dagster as dg
from playwright.sync_api import Page, expect

from headrace.assets.names import lineage_key
from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from tests.console.browser import launched
from tests.e2e.app import App
from tests.eventually import eventually
from tests.ports import free_port

DOCS = Path(__file__).parents[2] / "docs"
NAME = "shop"
PATIENCE = 240.0
"""Seconds: Dagster's processes start one after the other, on a machine that may be busy."""
_TYPED = {"name": "sold", "table": "lake.sold", "schema": "id BIGINT, item STRING"}
_BAD = b'{"id": "one", "item": 7}'


@dataclass(frozen=True, slots=True)
class DagsterPages:
    """Dagster's UI, opened in a browser. Each method goes to a page by clicks, from wherever the browser is."""

    page: Page
    address: str

    def graph(self) -> None:
        self._from_the_side("Lineage")
        expect(self.page.get_by_text("sold_quarantine").first).to_be_visible()

    def asset(self, name: str, *tabs: str) -> None:
        """The page of an asset, and one of its tabs after the other."""
        self._from_the_side("Catalog")
        self.page.get_by_role("link", name=f"{NAME} / {name}", exact=True).first.click()
        for tab in tabs:
            self.page.get_by_role("tab", name=tab).or_(
                self.page.get_by_role("link", name=tab, exact=True)
            ).first.click()

    def sensor(self, name: str) -> None:
        self._from_the_side("Automation")
        self.page.get_by_role("link", name=f"{NAME}_{name}", exact=True).click()
        expect(self.page.get_by_text("Frequency")).to_be_visible()

    def newest_run_of(self, job: str) -> None:
        self._from_the_side("Runs")
        row = self.page.get_by_role("row").filter(has_text=f"{NAME}_{job}").first
        row.get_by_role("link").first.click()

    def launchpad(self, job: str) -> None:
        self.page.goto(f"{self.address}/jobs")
        self.page.get_by_role("link", name=f"{NAME}_{job}", exact=True).first.click()
        self.page.get_by_text("Launchpad", exact=True).first.click()

    def _from_the_side(self, name: str) -> None:
        self.page.get_by_role("link", name=name, exact=True).first.click()


def fill(app: App) -> None:
    """Let the application live, in this process."""
    app.settle()
    _put(app, range(60))
    app.read()
    app.split(0)
    _put(app, range(60, 100), bad=(_BAD, b"not JSON"))
    app.read_all()
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


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-pages-") as folder,
        dagster_of_its_own(Path(folder)) as address,
    ):
        print(address, flush=True)
        with launched() as browser:
            page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme="light")
            page.goto(address)
            pages = DagsterPages(page, address)
            if "--stay" not in sys.argv:
                pages.graph()
        if "--stay" in sys.argv:
            input()


if __name__ == "__main__":
    main()
