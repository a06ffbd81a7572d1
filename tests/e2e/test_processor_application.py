"""A processor that is a KCL application of its own, driven by Dagster's sensors, with its processes on Spark: a reshard, its
process killed between record and checkpoint, then the one that holds the processes of all shards, its run killed after the
delivery. Each record is delivered at least once, in the order of its shard, and parents before children."""

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from headrace.assets.names import slug
from headrace.pipeline.aws.leases.leases import DynamoLeaseStore
from headrace.pipeline.duties.waves.report import WaveStep
from headrace.pipeline.local.endpoint import LocalAws
from headrace.resources.runs import worker_tag
from tests.e2e.app import App, key
from tests.eventually import eventually

pytestmark = pytest.mark.slow

CODE = """
import json, os, signal, time
from pathlib import Path

FOLDER = Path({folder!r})


class Words:
    version = 3

    def initialize(self, given):
        self.shard = given.shard_id
        self.note("initialize", at=given.sequence_number)

    def note(self, what, **facts):
        with (FOLDER / "recorded").open("a") as file:
            file.write(json.dumps({{"shard": self.shard, "what": what, **facts}}) + "\\n")

    def process_records(self, given):
        for record in given.records:
            word = record.binary_data.decode()
            self.note("record", word=word, number=record.sequence_number)
            for file, number in ("kill", os.getpid()), ("kill-parent", os.getppid()):
                kill = FOLDER / file
                if kill.exists() and kill.read_text() == word:
                    kill.unlink()
                    os.kill(number, signal.SIGKILL)
                    # It ends with its parent, which takes the kernel a moment.
                    time.sleep(60)
        given.checkpointer.checkpoint()
        self.note("checkpoint", number=given.records[-1].sequence_number)

    def shard_ended(self, given):
        self.note("shard_ended")
        given.checkpointer.checkpoint()

    def shutdown_requested(self, given):
        pass

    def lease_lost(self, given):
        pass
"""


class WordsApp(App):
    """The application of the processor, beside which the landing application has nothing to do here."""

    @property
    def own(self) -> str:
        return f"{self.name}-words"

    @property
    def job_name(self) -> str:
        return f"{slug(self.own)}_process"

    @property
    def records(self) -> dg.AssetKey:
        return dg.AssetKey([slug(self.name), "processor", "words"])

    @property
    def partitions(self) -> str:
        return f"{self.own}_shards"

    def tick(self, sensor: str) -> dg.SensorResult:
        landing, self.name = self.name, self.own
        try:
            return super().tick(sensor)
        finally:
            self.name = landing

    def latest_run(self, worker: str = "w1") -> dg.DagsterRun:
        tags = worker_tag(self.own, worker)
        return self.instance.get_runs(dg.RunsFilter(tags=tags), limit=1)[0]

    @cached_property
    def leases(self) -> Any:
        return DynamoLeaseStore(self._ports.dynamodb(), self.own)

    def recorded(self, what: str) -> list[dict[str, Any]]:
        file = self.home / "recorded"
        lines = file.read_text().splitlines() if file.exists() else []
        return [call for call in map(json.loads, lines) if call["what"] == what]

    def is_all_checkpointed(self) -> bool:
        rows = {row.shard_id: row.checkpoint for row in self.leases.scan().leases}
        last = {call["shard"]: call["number"] for call in self.recorded("record")}
        return {call["word"] for call in self.recorded("record")} >= set(self.put) and all(
            rows[shard].is_end or rows[shard].sequence == number for shard, number in last.items()
        )

    def process_all(self) -> None:
        def is_done() -> bool:
            self.tick("leader")
            if (request := self.asked()) is not None:
                self.execute(request)
            return self.is_all_checkpointed()

        eventually(is_done, "everything is processed and checkpointed")


@pytest.fixture(params=["own", "shared"])
def app(
    aws: LocalAws, _environment: None, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[WordsApp]:
    (tmp_path / "words.py").write_text(CODE.format(folder=str(tmp_path)))
    name = f"wordsapp-{request.param}"
    processor = {
        "name": "words",
        "mode": "application",
        "application": f"{name}-words",
        "callable": "words:Words",
        "records": 5,
        "imports": request.param,
    }
    app = WordsApp(name=name, home=tmp_path, aws=aws, more={"processors": [processor]})
    try:
        yield app
    finally:
        app.close()


def test_each_record_is_processed_at_least_once_in_the_order_of_its_shard(app: WordsApp):
    app.settle()
    app.produce(40)
    app.process_all()
    # A process dies between a record and its checkpoint, and the next one gets the record again.
    app.produce(30)
    (app.home / "kill").write_text(app.put[-3])
    app.process_all()
    # So does the process that holds those of all shards: the keeper, or the one that has imported the code.
    app.produce(30)
    (app.home / "kill-parent").write_text(app.put[-3])
    app.process_all()
    assert not (app.home / "kill-parent").exists()
    # A run dies after its tasks have delivered and checkpointed.
    app.produce(20)
    killed = app.killed_run(WaveStep.STAGED)
    app.instance.report_run_failed(killed)
    app.split(0)
    app.produce(20)
    app.process_all()

    def has_parent_ended() -> bool:
        app.tick("leader")
        return app.lease(0).has_ended

    eventually(has_parent_ended, "the parent's end is checkpointed")

    words = [call["word"] for call in app.recorded("record")]
    assert set(words) == set(app.put)
    assert words.count(app.put[67]) > 1
    assert words.count(app.put[97]) > 1
    for shard in {call["shard"] for call in app.recorded("record")}:
        numbers = [int(call["number"]) for call in app.recorded("record") if call["shard"] == shard]
        first_seen = list(dict.fromkeys(numbers))
        assert first_seen == sorted(first_seen)
    calls = [json.loads(line) for line in (app.home / "recorded").read_text().splitlines()]
    ended = next(
        n for n, call in enumerate(calls) if (call["shard"], call["what"]) == (key(0), "shard_ended")
    )
    children = [n for n, call in enumerate(calls) if call["shard"] in {key(2), key(3)}]
    assert children
    assert min(children) > ended
    assert app.statuses()["MATERIALIZED"]
