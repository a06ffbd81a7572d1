"""What one of our workers tells the judge of its claims and waves."""

from __future__ import annotations

import pytest

from pipeline.core.batch import Staged
from pipeline.core.position import Position
from pipeline.core.stream import ShardKey, StreamId
from pipeline.duties.wave import Arrow, Landed, Problem, WaveReport
from tests.interop.fleet import Event
from tests.interop.ours import OurWorker, settings_of

A, B = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture
def told(tmp_path, capsys):
    """A worker, and what it has told since the last look: (event, shard)."""
    given = {"worker": "h1", "app": "app", "stream": "orders", "failover": 20.0}
    worker = OurWorker(settings_of(given | {"home": str(tmp_path), "endpoint": "http://127.0.0.1:9"}))

    def told():
        events = [Event.of(line) for line in capsys.readouterr().out.splitlines()]
        return [(event.kind, event.shard) for event in events]

    return worker, told


def landed(shard, rows, *, ended=False):
    key = ShardKey(StreamId("arn:aws:kinesis:us-east-1:1:stream/orders", 1), shard)
    staged = Staged(key, Position(1), Position(9, ended=ended), rows=rows)
    return Landed(shard, staged, snapshot=1, files=(), parents=())


def test_a_claim_is_told_of_each_wave_and_after_the_beginning_of_its_shard(told):
    worker, news = told
    worker._on_arrow(Arrow.CLAIMED, (A,))
    assert news() == [("initialize", A), ("claimed", A)]
    worker._on_arrow(Arrow.CLAIMED, (A, B))
    assert news() == [("initialize", B), ("claimed", A), ("claimed", B)]
    worker._on_arrow(Arrow.COMMITTED, (A, B))
    assert news() == []


def test_what_landed_counts_as_checkpointed_only_where_no_problem_is_told(told):
    worker, news = told
    refused = Problem(B, "its row was taken by k1 meanwhile; what was committed stays", fatal=False)
    worker._on_wave(WaveReport(landed=(landed(A, 5), landed(B, 5)), problems=(refused,)))
    assert news() == [("landed", A), ("checkpoint", A), ("landed", B)]


def test_a_wave_that_found_nothing_landed_nothing(told):
    worker, news = told
    worker._on_wave(WaveReport(landed=(landed(A, 0),)))
    assert news() == [("checkpoint", A)]


def test_an_end_and_a_loss_are_told(told):
    worker, news = told
    worker._on_arrow(Arrow.CLAIMED, (A, B))
    worker._on_wave(WaveReport(landed=(landed(A, 0, ended=True),)))
    worker._note(frozenset())
    assert news()[4:] == [("checkpoint", A), ("shardEnded", A), ("leaseLost", B)]
