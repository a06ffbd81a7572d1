"""What makes a scenario fail: each check is tried on an output that passes, and on one with a fault that the check
must find."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.pipeline.local.endpoint import LocalAws
from tests.interop import scene
from tests.interop.deployment import _events
from tests.interop.fleet import Event
from tests.interop.overlaps import Cause, Commit
from tests.interop.records import Record
from tests.interop.rows import Rows
from tests.interop.scene import Scene, Stage
from tests.interop.verdict import readers

A, B = "shardId-000000000000", "shardId-000000000001"
R0, R1 = Record(A, "500", "r0"), Record(A, "501", "r1")
KCL_READS = [Event(1, "initialize", "k1", A), Event(2, "record", "k1", A, ("500", "0", "r0"))]
CHECKPOINT = Event(3, "checkpoint", "k1", A)


class Lake:
    """A table with these records, landed by one commit."""

    def __init__(self, *found):
        self.found = found

    def records(self):
        return self.found

    def commits(self):
        return [Commit(at=10, shard=A, after=None, upto=600, rows=len(self.found))]


def a_scene(folder: Path, fleet: Any = None, traffic: Any = None) -> Scene:
    return Scene("a scene", LocalAws("http://nowhere"), fleet, traffic, Rows(None, "app"), Stage(folder))


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """How many checks fail in a scenario in which r0 and r1 were put."""
    monkeypatch.setattr(scene, "_CATCH_UP", 0.0)

    def judged(events, *ours: Record, both=None):
        fleet, traffic = SimpleNamespace(events=lambda: events), SimpleNamespace(put={"r0": R0, "r1": R1})
        play = a_scene(tmp_path, fleet, traffic)
        lake: Any = Lake(*ours)
        play.finish(lake, both=both)
        return play.fails

    return judged


def test_a_scenario_holds_if_each_record_came_out_once(judged):
    assert judged([*KCL_READS, CHECKPOINT], R1) == 0


def test_a_missing_record_fails_a_check(judged):
    assert judged([*KCL_READS, CHECKPOINT]) == 1


def test_a_record_that_landed_with_another_sequence_number_fails_a_check(judged):
    assert judged([*KCL_READS, CHECKPOINT], Record(A, "502", "r1")) == 1


def test_a_record_that_landed_in_another_shard_fails_a_check(judged):
    assert judged([*KCL_READS, CHECKPOINT], Record(B, "501", "r1")) == 1


def test_a_record_in_both_outputs_that_kcl_had_checkpointed_fails_a_check(judged):
    every = dict.fromkeys(Cause, 100)
    assert judged([*KCL_READS, CHECKPOINT], R0, R1, both=every) == 1


def test_a_record_in_both_outputs_that_kcl_had_not_checkpointed_fails_a_check_unless_it_is_allowed(judged):
    assert judged(KCL_READS, R0, R1) == 1
    assert judged(KCL_READS, R0, R1, both={Cause.OURS_CUT_OFF: 100}) == 1
    assert judged(KCL_READS, R0, R1, both={Cause.KCL_CUT_OFF: 1}) == 0


def test_the_check_that_something_never_happens_fails_if_any_single_look_finds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(scene, "_LOOK", 0.001)
    play = a_scene(tmp_path)
    play.never(list, "nothing", seconds=0.01)
    assert play.fails == 0
    looks = iter([[], [], ["a row"], *[[]] * 1000])
    play.never(lambda: next(looks), "a row for a moment", seconds=0.1)
    assert play.fails == 1


class Tables:
    """DynamoDB with one lease table."""

    def __init__(self, *rows):
        self.rows = rows

    def list_tables(self):
        return {"TableNames": ["app", "another"]}

    def scan(self, TableName):  # noqa: N803 # AWS's own names
        return {"Items": self.rows if TableName == "app" else [{"leaseOwner": {"S": "h1"}}]}


def row(key, checkpoint="495", **more):
    return {"leaseKey": {"S": key}, "checkpoint": {"S": checkpoint}} | {k: {"S": v} for k, v in more.items()}


def test_each_row_that_names_the_worker_is_found():
    rows = (
        row(A, leaseOwner="k1"), row(B, checkpointOwner="h1"), row("h1"), row("c", counter="h11"),
    )  # fmt: skip
    assert len(Rows(Tables(*rows), "app").naming("h1")) == 2
    assert Rows(Tables(rows[0]), "app").naming("h1") == []


def test_the_owner_of_an_ended_shard_doesnt_count_as_holding_it():
    rows = (row(A, leaseOwner="h1"), row(B, "SHARD_END", leaseOwner="h1"), row("c", leaseOwner="k1"))
    assert Rows(Tables(*rows), "app").open_leases_of("h1") == [A]


def test_a_commit_gives_the_events_that_the_shard_was_begun_landed_and_ended():
    whole = _events("h1", Commit(at=7, shard=A, after=1, upto=9, rows=4, ended=True))
    assert [event.kind for event in whole] == ["initialize", "landed", "shardEnded"]
    quiet = _events("h1", Commit(at=7, shard=A, after=1, upto=1))
    assert [event.kind for event in quiet] == ["initialize"]
    assert readers(KCL_READS) == {A: "k1"}
    assert readers([*KCL_READS, *quiet]) == {}
    assert readers([*KCL_READS, *whole[:2]]) == {A: "h1"}
