"""Promises of the stage port that a run needs when it opens its stage, in memory and on a real Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.batch import Batch, BatchLimits, Manifest
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.lake.staging.sessions import Sessions
from headrace.pipeline.ports.pages import RecordPage
from headrace.pipeline.ports.staging import OnWaiting, Stage, StagingSpec
from headrace.pipeline.settings.model import Settings, WorkerSettings
from tests.lake.stage_script import a_batch, a_page, a_spec
from tests.memory.clock import MemoryClock
from tests.memory.source import MemorySource
from tests.memory.stage import MemoryStage

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

LIMITS = BatchLimits(1_000, 1_000_000, 60.0)


@dataclass
class Opened:
    """A stage, and functions that let its engine start or keep it from starting."""

    stage: Stage
    batch: Batch
    spec: StagingSpec
    forbid: Callable[[], None]
    allow: Callable[[], None]

    def rows(self) -> int:
        return self.staged().staged[0].rows

    def staged(self) -> Manifest:
        return self.stage.stage([self.batch], self.spec, LIMITS)


def in_memory() -> Opened:
    clock = MemoryClock()
    source = MemorySource(clock)
    stream = source.create_stream("orders", 1)
    key = ShardKey(stream, "shardId-000000000000")
    for _ in range(2):
        source.put(key)
    stage = MemoryStage(source, clock)

    def forbidden(_on_waiting: OnWaiting) -> None:
        raise BadSetting("the test forbids the start")

    return Opened(
        stage,
        Batch(key, None, TRIM, clock.now(), timedelta(hours=24)),
        StagingSpec("memory", ()),
        forbid=lambda: setattr(stage, "start", forbidden),
        allow=lambda: setattr(stage, "start", lambda _: None),
    )


def on_spark(sessions: Sessions, folder: Path, patch: pytest.MonkeyPatch) -> Opened:
    pages: Sequence[RecordPage] = [a_page(1, 2)]

    class Pages:
        def pages(self, batch: Batch) -> Iterator[RecordPage]:
            yield from pages

    def forbid() -> None:
        """No server is found, and none can be started."""
        patch.setenv(DISCOVERY, str(folder / "connect.json"))
        patch.setenv("JAVA_HOME", "/nowhere")

    return Opened(
        sessions.stage("w1", Pages),
        a_batch(),
        a_spec(folder),
        forbid=forbid,
        allow=patch.undo,
    )


@pytest.fixture(params=["memory", "spark"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    if request.param == "memory":
        yield in_memory()
        return
    request.getfixturevalue("joined_spark")
    sessions = Sessions(Settings(application="app", workers=(WorkerSettings(id="w1"),)))
    with pytest.MonkeyPatch.context() as patch:
        yield on_spark(sessions, tmp_path / "data", patch)
    sessions.close()


def ignore(_sentence: str) -> None: ...


def test_an_opened_stage_stages_records(opened: Opened) -> None:
    opened.stage.open(ignore)
    assert opened.rows() == 2


def test_a_stage_opens_itself_when_it_is_asked_to_stage(opened: Opened) -> None:
    assert opened.rows() == 2


def test_opening_fails_while_the_engine_doesnt_start_and_succeeds_once_it_does(opened: Opened) -> None:
    opened.forbid()
    for _ in range(2):
        with pytest.raises(HeadraceError):
            opened.stage.open(ignore)
    with pytest.raises(HeadraceError):
        opened.staged()
    opened.allow()
    opened.stage.open(ignore)
    assert opened.rows() == 2


def test_opening_an_open_stage_again_starts_nothing(opened: Opened) -> None:
    opened.stage.open(ignore)
    opened.forbid()
    opened.stage.open(ignore)
    assert opened.rows() == 2
