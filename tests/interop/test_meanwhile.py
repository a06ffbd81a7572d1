"""A scenario whose producer dies fails, however few records it would have to judge."""

from __future__ import annotations

import threading

import pytest

from tests.eventually import eventually
from tests.interop import __main__ as runner
from tests.interop.meanwhile import BrokenOff, meanwhile
from tests.interop.records import Record
from tests.interop.scene import Stage
from tests.interop.traffic import Traffic

A = "shardId-000000000000"


class Stream:
    """Takes records, except the turns that it fails and the places that it refuses."""

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


def test_a_producer_that_dies_fails_the_scenario():
    stream = Stream(fails_at=2)
    with (
        pytest.raises(BrokenOff, match=r"the producer broke off: ConnectionError\('the stand-in is gone'\)"),
        Traffic(stream, "orders").flowing(),
    ):
        eventually(lambda: stream.turns == 2, "the producer's second turn", within=30)


def test_the_reason_is_told_where_the_scenario_then_waits_in_vain():
    stream = Stream(fails_at=1)

    def scenario():
        with Traffic(stream, "orders").flowing():
            eventually(lambda: stream.turns == 1, "the producer's first turn", within=30)
            raise TimeoutError("no shard is read")

    with pytest.raises(BrokenOff, match="the producer broke off"):
        scenario()


def test_while_nothing_fails_it_goes_on_until_the_block_is_left():
    turns = []
    with meanwhile(lambda: turns.append(threading.current_thread()), "nothing", every=0.001):
        eventually(lambda: len(turns) > 3, "four turns", within=30)
    over = len(turns)
    assert not turns[0].is_alive()
    assert len(turns) == over


def test_records_that_kinesis_refuses_are_not_put_and_their_payloads_are_not_used_again():
    traffic = Traffic(Stream(refuses={1}), "orders", a_turn=3)
    traffic._produce()
    traffic._produce()
    assert traffic.put == {
        name: Record(A, number, name)
        for name, number in {"r0": "100", "r2": "102", "r3": "200", "r5": "202"}.items()
    }


def test_whatever_breaks_a_scenario_off_fails_it_and_no_other(tmp_path, capsys):
    def scenario(stage):
        raise StopIteration

    assert runner._fails(scenario, Stage(tmp_path), "this one")
    assert "this one: FAILED" in capsys.readouterr().out
    assert not runner._fails(lambda stage: 0, Stage(tmp_path), "another one")
