"""The events that Headrace's worker prints about its claims and waves, which the judge reads."""

from __future__ import annotations

import pytest

from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.duties.waves.report import Landed, Problem, WaveReport, WaveStep
from tests.interop.fleet import Event
from tests.interop.ours import OurWorker, settings_of

A, B = "shardId-000000000000", "shardId-000000000001"


@pytest.fixture
def printing(tmp_path, capsys):
    """A worker, and the events since the last look, as pairs of event and shard."""
    given = {"worker": "h1", "app": "app", "stream": "orders", "failover": 20.0}
    worker = OurWorker(settings_of(given | {"home": str(tmp_path), "endpoint": "http://127.0.0.1:9"}))

    def printed():
        events = [Event.of(line) for line in capsys.readouterr().out.splitlines()]
        return [(event.kind, event.shard) for event in events]

    return worker, printed


def landed(shard, rows, *, ended=False):
    key = ShardKey(StreamId("arn:aws:kinesis:us-east-1:1:stream/orders", 1), shard)
    staged = Staged(key, Position(1), Position(9, ended=ended), rows=rows)
    return Landed(shard, staged, snapshot=1, files=(), parents=())


def test_each_wave_prints_a_claim_and_the_first_one_the_beginning_of_the_shard(printing):
    worker, news = printing
    worker._on_step(WaveStep.CLAIMED, (A,))
    assert news() == [("initialize", A), ("claimed", A)]
    worker._on_step(WaveStep.CLAIMED, (A, B))
    assert news() == [("initialize", B), ("claimed", A), ("claimed", B)]
    worker._on_step(WaveStep.COMMITTED, (A, B))
    assert news() == []


def test_a_landed_shard_counts_as_checkpointed_only_if_the_wave_had_no_problem_with_it(printing):
    worker, news = printing
    refused = Problem(B, "the shard's row was taken by k1 meanwhile; what was committed stays", fatal=False)
    worker._on_wave(WaveReport(landed=(landed(A, 5), landed(B, 5)), problems=(refused,)))
    assert news() == [("landed", A), ("checkpoint", A), ("landed", B)]


def test_a_wave_that_found_no_record_prints_no_landing(printing):
    worker, news = printing
    worker._on_wave(WaveReport(landed=(landed(A, 0),)))
    assert news() == [("checkpoint", A)]


def test_the_end_and_the_loss_of_a_shard_are_printed(printing):
    worker, news = printing
    worker._on_step(WaveStep.CLAIMED, (A, B))
    worker._on_wave(WaveReport(landed=(landed(A, 0, ended=True),)))
    worker._note(frozenset())
    assert news()[4:] == [("checkpoint", A), ("shardEnded", A), ("leaseLost", B)]
