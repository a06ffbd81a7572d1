"""At LATEST, no record is skipped that comes after the processor has begun with its stream."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.pipeline.core.leases.change import create, retire
from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.shards.checkpoint import LATEST, TRIM_HORIZON
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange
from headrace.pipeline.core.sharing.sync_plan import in_turn
from headrace.pipeline.processors.application.beginnings import begun_at_latest
from headrace.pipeline.settings.choices import InitialPosition
from tests.duties.two_streams import recreate
from tests.duties.world import STREAM
from tests.processors.application.worlds import ApplicationWorld

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = BEGUN + timedelta(seconds=60)
LOWER, UPPER = HashRange(0, MAX_HASH_KEY // 2), HashRange(MAX_HASH_KEY // 2 + 1, MAX_HASH_KEY)


def a_row(name: str, hash_range: HashRange | None = LOWER, *, epoch: int | None = 7) -> Lease:
    return Lease(name, checkpoint=LATEST, hash_range=hash_range, stream_epoch=epoch)


def test_the_first_rows_of_a_stream_have_the_moment_at_which_they_are_made():
    assert begun_at_latest(a_row("a"), (), NOW) == replace(a_row("a"), looked_at=NOW)


def test_a_shard_whose_hash_keys_another_row_has_is_read_from_its_oldest_record():
    ancestor = replace(a_row("a", HashRange(0, MAX_HASH_KEY)), looked_at=BEGUN)
    assert begun_at_latest(a_row("c"), (ancestor,), NOW).checkpoint == TRIM_HORIZON


def test_a_shard_that_the_first_listing_hid_is_read_from_the_moment_of_the_other_rows():
    first = replace(a_row("a"), looked_at=BEGUN)
    assert begun_at_latest(a_row("b", UPPER), (first,), NOW) == replace(a_row("b", UPPER), looked_at=BEGUN)


@pytest.mark.parametrize("row", [a_row("b", UPPER, epoch=6), a_row("b", None)])
def test_beside_rows_of_an_earlier_life_or_without_hash_keys_nothing_is_skipped(row: Lease):
    assert begun_at_latest(a_row("a"), (row,), NOW).checkpoint == TRIM_HORIZON


def test_rows_of_an_earlier_life_stay_until_the_first_row_of_the_present_life_is_there():
    retired = [retire(a_row(name, epoch=6), "older") for name in ("a", "b", "c")]
    made = [create(a_row(name), "new") for name in ("b", "a")]
    written = [(change.key, change.kind.value) for change in in_turn(retired, made, is_begun=False)]
    assert written[:2] == [("b", "retire"), ("b", "create")]
    assert in_turn(retired, [], is_begun=False) == retired[1:]
    assert in_turn(retired, [], is_begun=True) == retired


def test_a_stream_that_is_created_again_is_read_from_its_beginning(tmp_path, monkeypatch):
    world = ApplicationWorld(shards=1, log=tmp_path / "recorded", position=InitialPosition.LATEST)
    monkeypatch.setenv("RECORDED", str(world.log))
    world.say("before")
    world.clock.advance(world.settings.times.worker_tick)
    world.settle()
    world.clock.advance(timedelta(hours=1))
    recreate(world, STREAM)
    world.say("a")
    world.clock.advance(timedelta(minutes=10))
    world.begin_process()
    world.tick(12)
    world.wave(run="second")
    assert world.words() == ["a"]
