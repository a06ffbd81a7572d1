"""A scenario whose producer fails, fails too, even if the records so far pass all checks."""

from __future__ import annotations

import threading

import pytest

from tests.eventually import eventually
from tests.interop import __main__ as runner
from tests.interop.meanwhile import WorkFailed, meanwhile
from tests.interop.records import Record
from tests.interop.scene import Stage
from tests.interop.traffic import Traffic

A = "shardId-000000000000"


class Stream:
    """A Kinesis client that fails in some turns and refuses some records."""

    def __init__(self, *, fails_at=None, refuses=()):
        self.turns, self.fails_at, self.refuses = 0, fails_at, refuses

    def put_records(self, *, StreamName, Records):  # noqa: N803 # AWS's own names
        self.turns += 1
        if self.turns == self.fails_at:
            raise ConnectionError("the stand-in is gone")
        return {
            "Records": [
                {"ErrorCode": "ProvisionedThroughputExceededException"}
                if place in self.refuses
                else {"ShardId": A, "SequenceNumber": str(100 * self.turns + place)}
                for place, _ in enumerate(Records)
            ]
        }


def test_a_producer_that_fails_makes_the_scenario_fail():
    stream = Stream(fails_at=2)
    with (
        pytest.raises(WorkFailed, match=r"the producer failed: ConnectionError\('the stand-in is gone'\)"),
        Traffic(stream, "orders").flowing(),
    ):
        eventually(lambda: stream.turns == 2, "the producer's second turn", within=30)


def test_the_producers_error_is_reported_if_the_scenario_waited_without_success():
    stream = Stream(fails_at=1)

    def scenario():
        with Traffic(stream, "orders").flowing():
            eventually(lambda: stream.turns == 1, "the producer's first turn", within=30)
            raise TimeoutError("no shard is read")

    with pytest.raises(WorkFailed, match="the producer failed"):
        scenario()


def test_a_producer_without_errors_goes_on_until_the_block_ends():
    turns = []
    with meanwhile(lambda: turns.append(threading.current_thread()), "nothing", every=0.001):
        eventually(lambda: len(turns) > 3, "four turns", within=30)
    over = len(turns)
    assert not turns[0].is_alive()
    assert len(turns) == over


def test_records_that_kinesis_refuses_are_not_expected_and_their_payloads_are_not_used_again():
    traffic = Traffic(Stream(refuses={1}), "orders", a_turn=3)
    traffic._produce()
    traffic._produce()
    assert traffic.put == {
        name: Record(A, number, name)
        for name, number in {"r0": "100", "r2": "102", "r3": "200", "r5": "202"}.items()
    }


def test_an_error_in_one_scenario_fails_that_scenario_and_no_other(tmp_path, capsys):
    def scenario(stage):
        raise StopIteration

    assert runner._fails(scenario, Stage(tmp_path), "this one")
    assert "this one: FAILED" in capsys.readouterr().out
    assert not runner._fails(lambda stage: 0, Stage(tmp_path), "another one")
