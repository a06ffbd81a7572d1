"""Waves of a table of the latest rows: rows, the removal of older ones, and positions are one commit."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.shards.position import TRIM, Origin
from headrace.pipeline.errors import BadSetting, Overtaken, WrongShape
from headrace.pipeline.lake.table.live_files import found_in
from headrace.pipeline.settings.blocks.parse import LatestSettings
from headrace.pipeline.settings.choices import Into
from headrace.pipeline.typed.latest.table import IcebergLatest
from headrace.pipeline.typed.source import IcebergSource
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.windows.replace import check_replaceable
from tests.lake.samples import NOON, a_key
from tests.typed.latest.beds import GONE, LatestBed, named
from tests.typed.parsings import BAD, A, B, Killed


def dropped(bed: LatestBed) -> Mapping[str, int]:
    """How many rows the ledgers say were dropped, by their reasons."""
    sums: dict[str, int] = {}
    for page in bed.typed().pages():
        for stated in page.ranges:
            account = read_accounting(stated.account)
            assert account.is_complete
            for why, rows in account.dropped.items():
                sums[why] = sums.get(why, 0) + rows
    return sums


def paths(bed: LatestBed) -> set[str]:
    return {file.path for file in IcebergSource(bed.typed()).look().files}


def test_the_table_has_the_latest_row_of_each_key(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two"), 3: named(1, "uno"), 4: BAD})
    bed.catch_up()
    assert bed.names() == {1: "uno", 2: "two"}
    files = paths(bed)

    bed.land(B, {10: named(3, "three"), 11: named(4, GONE)})
    bed.catch_up()
    assert bed.names() == {1: "uno", 2: "two", 3: "three"}
    # Nothing of the older rows was written again.
    assert files < paths(bed)

    bed.land(A, {5: named(2, GONE), 6: named(1, "eins")}, arrival=NOON + timedelta(days=1))
    bed.catch_up()
    assert bed.names() == {1: "eins", 3: "three"}
    assert dropped(bed) == {"superseded": 1, "deletion": 2}
    assert bed.set_aside() == [(A.shard_id, 4, 0)]


def test_a_key_that_was_deleted_comes_back_only_by_a_later_record(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(1, GONE)})
    bed.catch_up()
    assert bed.names() == {}
    bed.land(A, {3: named(1, "again")})
    bed.catch_up()
    assert bed.names() == {1: "again"}


def test_the_children_of_a_shard_come_after_it(tmp_path: Path):
    bed = LatestBed(tmp_path)
    child = a_key(2)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two")})
    bed.land(A, {3: named(1, "uno")}, ended=[child.shard_id, a_key(3).shard_id])
    bed.land(child, {7: named(1, GONE), 8: named(2, "zwei")}, parents=[A.shard_id])
    # A row at a time: the child waits for the end of its parent.
    bed.catch_up(limits=WaveLimits(1, 2**30))
    assert bed.names() == {2: "zwei"}


def test_a_row_that_a_later_life_of_the_stream_deletes_isnt_brought_back_by_an_earlier_life(tmp_path: Path):
    bed = LatestBed(tmp_path)
    child = a_key(2)
    later = replace(A, stream=replace(A.stream, epoch=A.stream.epoch + 3600))
    bed.land(A, {1: named(1, "one")}, ended=[child.shard_id, a_key(3).shard_id])
    bed.land(child, {7: named(1, "uno"), 8: named(2, "zwei")}, parents=[A.shard_id])
    bed.lake.handle().commit(Proposal((), (), ((later.stream, Origin(TRIM, NOON + timedelta(hours=1))),)))
    # While the child waits for its parent's end, nothing of the later life is taken.
    bed.land(later, {2: named(1, GONE), 9: named(3, "three")}, arrival=NOON + timedelta(hours=1))
    bed.catch_up()
    assert bed.names() == {2: "zwei", 3: "three"}


def test_a_later_life_comes_after_a_lake_table_that_was_set_back_and_ended(tmp_path: Path):
    bed = LatestBed(tmp_path)
    child = a_key(2)
    later = replace(A, stream=replace(A.stream, epoch=A.stream.epoch + 3600))
    bed.land(A, {1: named(1, "one")})
    before = bed.lake.handle().load().snapshot
    bed.land(A, {2: named(2, "two")})
    bed.catch_up()
    # A person sets the lake table back, and what came of the shard before its end lands no more.
    bed.lake.handle().open().manage_snapshots().set_current_snapshot(before).commit()
    bed.land(A, {}, ended=[child.shard_id, a_key(3).shard_id])
    bed.land(child, {7: named(1, "uno")}, parents=[A.shard_id])
    bed.lake.handle().commit(Proposal((), (), ((later.stream, Origin(TRIM, NOON + timedelta(hours=1))),)))
    bed.land(later, {2: named(1, GONE)}, arrival=NOON + timedelta(hours=1))
    assert bed.parsing().is_behind()
    bed.catch_up()
    assert bed.names() == {2: "two"}
    assert not bed.parsing().lacks_records()


@pytest.mark.parametrize("place", ["planned", "staged", "committed"])
def test_a_wave_that_is_killed_anywhere_is_done_once(tmp_path: Path, place: str):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two")})
    bed.catch_up()
    bed.land(A, {3: named(1, "uno"), 4: named(2, GONE), 5: named(3, "three")})
    with pytest.raises(Killed):
        bed.parsing(kill=place).wave()
    assert bed.names() == ({1: "uno", 3: "three"} if place == "committed" else {1: "one", 2: "two"})
    bed.catch_up()
    assert bed.names() == {1: "uno", 3: "three"}
    assert dropped(bed) == {"deletion": 1}
    bed.check()


def test_a_wave_is_refused_where_another_one_has_brought_rows_since_its_look(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {2: named(1, "one")})
    bed.catch_up()
    bed.land(A, {3: named(2, "two")})

    def overtake(step: str) -> None:
        if step == "staged":
            # Of the same key, and of another shard: no range of the slow wave is in the way.
            bed.land(B, {1: named(2, "deux")})
            assert bed.parsing(limits=WaveLimits(1, 2**30)).wave().landed == 1

    with pytest.raises(Overtaken):
        replace(bed.parsing(), on_step=overtake).wave()
    assert bed.names() == {1: "one", 2: "deux"}
    bed.catch_up()
    assert bed.names() == {1: "one", 2: "two"}


def test_a_wave_is_done_again_where_a_compaction_has_replaced_a_file_that_it_would_remove(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two")})
    bed.catch_up()
    bed.land(A, {3: named(1, "uno")})

    def compact(step: str) -> None:
        if step == "staged":
            table = bed.typed()
            base = table.base()
            (path,) = paths(bed)
            copied = bed.copied_whole(path)
            attempt = table.prepare(
                base,
                base.carrying(copied),
                move_tag=False,
                replaced=found_in(base.table, [path]),
            )
            assert table.sent(attempt, base.table)

    with pytest.raises(Overtaken):
        replace(bed.parsing(), on_step=compact).wave()
    assert bed.names() == {1: "one", 2: "two"}
    bed.catch_up()
    assert bed.names() == {1: "uno", 2: "two"}


def test_after_a_rollback_the_records_are_parsed_into_the_rows_of_that_time(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two")})
    bed.catch_up()
    tables = bed.typed(), bed.quarantine()
    before = [table.load().snapshot for table in tables]
    bed.land(A, {3: named(1, GONE), 4: named(2, "zwei")})
    bed.catch_up()
    for table, snapshot in zip(tables, before, strict=True):
        table.open().manage_snapshots().set_current_snapshot(snapshot).commit()
    assert bed.names() == {1: "one", 2: "two"}
    bed.catch_up()
    assert bed.names() == {2: "zwei"}


def test_the_partition_key_is_the_key_where_no_other_is_given(tmp_path: Path):
    bed = LatestBed(tmp_path, key=None)
    bed.land(A, {1: named(1, "one"), 2: named(2, "two"), 3: named(1, "uno")})
    bed.catch_up()
    assert bed.names() == {1: "uno", 2: "two"}


def test_deletions_of_a_key_with_several_partition_keys_are_refused(tmp_path: Path):
    class Mixed(LatestBed):
        def partition_key(self, payload: bytes) -> str:
            return payload.decode()

    bed = Mixed(tmp_path)
    bed.land(A, {1: named(1, "one"), 2: named(1, GONE)})
    with pytest.raises(WrongShape, match="1 record of a key came with another partition key"):
        bed.parsing().wave()
    assert bed.names() == {}
    # Without deletions, the highest number counts.
    bed.settings = replace(bed.settings, latest=LatestSettings(key="id"))
    bed.catch_up()
    assert bed.names() == {1: GONE}


def test_another_key_and_another_kind_of_table_are_refused(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one")})
    bed.catch_up()
    bed.land(A, {2: named(1, "uno")})
    key = bed.settings.latest
    bed.settings = replace(bed.settings, latest=LatestSettings(key="name"))
    with pytest.raises(WrongShape, match="has the latest row of each id, and the target's key is name now"):
        bed.parsing().wave()
    bed.settings = replace(bed.settings, latest=key)
    bed.catch_up()
    assert bed.names() == {1: "uno"}


def test_neither_a_redrive_nor_a_replacement_can_bring_deleted_rows_back(tmp_path: Path):
    bed = LatestBed(tmp_path)
    bed.land(A, {1: BAD, 2: named(1, GONE)})
    bed.catch_up()
    with pytest.raises(BadSetting, match="a redrive could bring deleted rows back"):
        next(bed.redriving().portions())
    with pytest.raises(BadSetting, match="a replacement of rows could bring deleted rows back"):
        check_replaceable(bed.settings)


def test_a_table_with_a_row_for_each_record_takes_no_latest_rows_and_says_why(tmp_path: Path):
    from tests.typed.parsings import Bed

    plain = Bed(tmp_path)
    plain.land(A, {1: b'{"id": 1, "name": "one"}'})
    plain.catch_up()
    latest = IcebergLatest(plain.lake.properties, plain.settings.table, state=plain.state, clock=plain.clock)
    with pytest.raises(WrongShape, match=r"has a row for each record.*take `into: latest` out again"):
        latest.ensure(create=False)


def test_a_table_of_the_latest_rows_takes_no_row_for_each_record(tmp_path: Path):
    from tests.typed.parsings import Bed

    bed = LatestBed(tmp_path)
    bed.land(A, {1: named(1, "one")})
    bed.catch_up()
    plain = Bed.__new__(Bed)
    plain.__dict__ |= bed.__dict__
    plain.settings = replace(bed.settings, into=Into.ROWS, latest=LatestSettings())
    plain.parser = replace(bed.parser, bed=plain)
    bed.land(A, {2: named(1, "uno")})
    with pytest.raises(WrongShape, match="has one row for each key"):
        plain.parsing().wave()
