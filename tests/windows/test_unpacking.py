"""Aggregates that landed as one row each are taken apart on real Iceberg: exactly those of a window, once, whatever happens meanwhile."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.types import StringType

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.accounting import read_accounting
from headrace.pipeline.core.ledger.ledger import Kind, LedgerEntry, Lost, Range
from headrace.pipeline.core.ledger.rows import lineage_rows_of
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.core.shards.shard import MAX_HASH_KEY, HashRange, Shard
from headrace.pipeline.demo.aggregate import aggregated
from headrace.pipeline.errors import Transient, Unknown, WrongShape
from headrace.pipeline.kcl.deaggregate import MAGIC, NOT_AN_AGGREGATE, OUTSIDE
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lineage.table import IcebergLineage
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.window import Word
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON
from tests.proof import target_proofs as proofs
from tests.proof.proofs import ListedStream, proving_without_kinesis
from tests.proof.target_proofs import wrong
from tests.typed.parsings import A, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.unpackings import (
    ALL_OF_A,
    APART_TO_THREE,
    KEPT,
    TO_THREE,
    UnpackBed,
    at_arrow,
    kept,
    packed,
)
from tests.windows.windows import WindowBed

BROKEN = MAGIC + b"not an aggregate"


@pytest.fixture
def bed(tmp_path: Path) -> UnpackBed:
    return kept(tmp_path)


def files_of(bed: UnpackBed) -> dict[str, bytes]:
    live = IcebergLive(bed.lake.handle()).live()
    return {each.path: Path(each.path.removeprefix("file://")).read_bytes() for each in live.files}


def prove(bed: UnpackBed, *, anew: bool = False) -> Proof:
    return proving_without_kinesis(bed.lake.handle(), bed.clock).run(anew=anew)


def replays(bed: UnpackBed) -> list[Range]:
    entries = (e for e in IcebergLineage(bed.lake.handle()).entries() if isinstance(e, LedgerEntry))
    return [each for entry in entries for each in entry.page.ranges if each.kind is Kind.UNPACKED]


def compact(bed: UnpackBed) -> None:
    table = bed.lake.handle()
    bed.clock.at += timedelta(hours=2)
    settings = UpkeepSettings()
    rewriter = InProcessRewriter(table)
    done = Compacting(table=IcebergLive(table), rewriter=lambda: rewriter, settings=settings, clock=bed.clock)
    assert done.run().done


def test_exactly_the_aggregates_of_the_window_become_their_user_records(bed: UnpackBed):
    before, files = bed.lake.handle().load().positions, files_of(bed)
    window = bed.to_unpack(TO_THREE)
    assert bed.unpack(window) == ["2 aggregates taken apart: 5 rows in the place of 2"]
    assert bed.payloads() == APART_TO_THREE
    # No position has moved, and the files without an aggregate of the window are the same.
    assert bed.lake.handle().load().positions == before
    assert len(files_of(bed).items() & files.items()) == len(files) - 1
    assert bed.unpacking(window).rows_done() == 2
    rows = {
        (r["sequence_number"], r["sub_sequence_number"]): r for r in read.rows(bed.lake.handle()).to_pylist()
    }
    assert rows["2", 1]["partition_key"] == "key"
    assert rows["2", 1]["arrival_ts"] == rows["2", 0]["arrival_ts"]
    assert rows["2", 1]["sort_key"] > rows["2", 0]["sort_key"]


def test_an_aggregate_outside_of_the_window_stays_whole_in_the_same_file(bed: UnpackBed):
    bed.unpack(bed.to_unpack(Numbers(A.shard_id, 2, 2)))
    assert bed.payloads() == [*APART_TO_THREE[:4], *KEPT[2:]]
    bed.unpack(bed.to_unpack(TO_THREE))
    assert bed.payloads() == APART_TO_THREE
    assert wrong(prove(bed)) == []


def test_the_ledger_accounts_for_the_rows(bed: UnpackBed):
    window = bed.to_unpack(TO_THREE)
    bed.unpack(window)
    (told,) = replays(bed)
    assert (told.key, told.after, told.upto.sequence, told.rows, told.unpacked) == (A, None, 3, 3, True)
    account = read_accounting(told.account)
    assert (account.window, account.rows, account.removed, account.is_complete) == (
        window.id,
        5,
        (2, 0),
        True,
    )


def test_each_landing_is_accounted_for_also_where_one_file_has_the_rows_of_several(bed: UnpackBed):
    for number in range(6, 12):
        bed.land(A, {number: good(number)})
    compact(bed)
    bed.unpack(bed.to_unpack(ALL_OF_A))
    told = [(each.upto.sequence, each.rows, read_accounting(each.account).removed) for each in replays(bed)]
    assert told == [(3, 3, (2, 0)), (5, 0, (1, 0))]
    assert wrong(prove(bed)) == []


def test_running_it_again_changes_nothing(bed: UnpackBed):
    window = bed.to_unpack(TO_THREE)
    bed.unpack(window)
    snapshot = bed.lake.handle().load().snapshot
    for again in (window, bed.to_unpack(TO_THREE)):
        assert bed.unpack(again) == ["no aggregate found that is left to take apart"]
    assert bed.lake.handle().load().snapshot == snapshot


@pytest.mark.parametrize("limits", [WaveLimits(1, 2**30), WaveLimits(2, 2**30)])
def test_waves_give_the_rows_of_one_large_wave(bed: UnpackBed, limits: WaveLimits):
    window = bed.to_unpack(ALL_OF_A)
    bed.unpack(window, limits=limits)
    assert bed.payloads() == [*APART_TO_THREE[:6], (4, 0, good(41)), *APART_TO_THREE[7:]]
    assert sum(read_accounting(each.account).removed[0] for each in replays(bed)) == 3
    assert wrong(prove(bed)) == []


def test_a_user_record_that_begins_as_an_aggregate_stays_as_it_is(bed: UnpackBed):
    bed.land(A, {6: aggregated("key", [packed(61, 62)])})
    bed.unpack(bed.to_unpack(ALL_OF_A))
    assert [row for row in bed.payloads() if row[0] == 6] == [(6, 0, packed(61, 62))]
    bed.unpack(bed.to_unpack(ALL_OF_A))
    assert [row for row in bed.payloads() if row[0] == 6] == [(6, 0, packed(61, 62))]


def test_after_the_ledger_of_an_unpacking_was_lost_its_user_records_stay_as_they_are(bed: UnpackBed):
    bed.land(A, {6: aggregated("key", [packed(61, 62)])})
    bed.unpack(bed.to_unpack(ALL_OF_A))
    before = bed.payloads()

    def lost(row: dict[str, Any]) -> list[dict[str, Any]]:
        if row["kind"] != Kind.UNPACKED:
            return [row]
        of = Lost(row["snapshot_id"], row["snapshot_sequence"], row["snapshot_at"], "a test")
        return [{**dict.fromkeys(row), **each} for each in lineage_rows_of(of)]

    with proofs.changed_ledgers(bed.lake.handle(), lost):
        assert A.shard_id in bed.notes(bed.to_unpack(ALL_OF_A))
        assert bed.payloads() == before
        bed.land(A, {7: packed(71, 72)})
        bed.unpack(bed.to_unpack(ALL_OF_A))
        assert bed.payloads() == [*before[:-1], (7, 0, good(71)), (7, 1, good(72)), before[-1]]


def test_what_is_no_right_aggregate_stays_whole_with_the_reason(bed: UnpackBed):
    bed.land(A, {6: BROKEN, 7: packed(71)})
    nothing = Shard(A.shard_id, hash_range=HashRange(MAX_HASH_KEY, MAX_HASH_KEY))
    bed.unpack(bed.to_unpack(Numbers(A.shard_id, 6)), kinesis=ListedStream({A.shard_id: nothing}))
    found = {
        r["sequence_number"]: (r["data"], r["decode_error"]) for r in read.rows(bed.lake.handle()).to_pylist()
    }
    assert found["6"] == (BROKEN, NOT_AN_AGGREGATE)
    assert found["7"] == (packed(71), OUTSIDE)
    assert wrong(prove(bed)) == []
    assert bed.unpack(bed.to_unpack(Numbers(A.shard_id, 6))) == [
        "no aggregate found that is left to take apart"
    ]


def test_hash_keys_of_a_later_life_of_the_stream_leave_no_aggregate_whole(bed: UnpackBed):
    """A stream that is created again uses the same shard names for other hash keys."""
    nothing = Shard(A.shard_id, hash_range=HashRange(MAX_HASH_KEY, MAX_HASH_KEY))
    later = ListedStream({A.shard_id: nothing}, replace(A.stream, epoch=A.stream.epoch + 60))
    window = bed.to_unpack(TO_THREE)
    assert f"Kinesis doesn't list 1 shard of the window, the first {A}" in bed.notes(window, kinesis=later)
    assert bed.payloads() == APART_TO_THREE
    assert wrong(prove(bed)) == []


def test_columns_of_others_go_with_the_rows(bed: UnpackBed):
    table = bed.lake.handle().open()
    with table.update_schema() as change:
        change.add_column("team", StringType())
    bed.unpack(bed.to_unpack(TO_THREE))
    path = next(path for path in files_of(bed) if "1" in pq.read_table(path)["sequence_number"].to_pylist())
    assert "team" in pq.read_schema(path.removeprefix("file://")).names


@pytest.mark.parametrize("arrow", ["planned", "staged", "committed"])
def test_after_a_kill_between_any_two_steps_the_next_run_ends_it(bed: UnpackBed, arrow: str):
    window = bed.to_unpack(TO_THREE)
    with pytest.raises(Killed):
        bed.unpack(window, kill=arrow)
    assert bed.payloads() == (APART_TO_THREE if arrow == "committed" else KEPT)
    bed.unpack(window)
    assert bed.payloads() == APART_TO_THREE


@pytest.mark.parametrize("arrow", ["planned", "staged"])
def test_of_two_runs_at_once_the_second_is_refused(bed: UnpackBed, arrow: str):
    window = bed.to_unpack(TO_THREE)
    with pytest.raises(Transient, match="no row is lost or doubled; run the window again"):
        bed.unpack(window, at=at_arrow(arrow, lambda: bed.unpack(window)))
    assert bed.payloads() == APART_TO_THREE
    assert len(replays(bed)) == 1
    assert bed.unpack(window) == ["no aggregate found that is left to take apart"]


def test_landing_goes_on_beside_it(bed: UnpackBed):
    window = bed.to_unpack(TO_THREE)
    bed.unpack(window, at=at_arrow("staged", lambda: bed.land(A, {6: good(6)})))
    assert bed.payloads() == [*APART_TO_THREE[:-1], (6, 0, good(6)), APART_TO_THREE[-1]]
    bed.land(A, {7: good(7)})
    assert wrong(prove(bed)) == []


def test_a_compaction_between_loses_nothing_and_the_next_run_goes_on(bed: UnpackBed):
    for number in range(6, 12):
        bed.land(A, {number: good(number)})
    window = bed.to_unpack(TO_THREE)
    with pytest.raises(Transient):
        bed.unpack(window, at=at_arrow("staged", lambda: compact(bed)))
    assert [row for row in bed.payloads() if row[0] == 2] == [KEPT[1]]
    bed.unpack(window)
    assert [row for row in bed.payloads() if row[0] in {2, 3}] == APART_TO_THREE[1:6]
    assert wrong(prove(bed)) == []


@pytest.mark.parametrize("commits", [1, 2])
def test_after_a_rollback_a_run_takes_apart_what_is_whole_again(bed: UnpackBed, commits: int):
    """The first one of two commits was another run's."""
    window = bed.to_unpack(ALL_OF_A)
    if commits == 2:
        bed.unpack(bed.to_unpack(Numbers(A.shard_id, None, 2)))
    waves = bed.unpacking(window, limits=WaveLimits(1, 2**30)).waves()
    next(waves)
    bed.lake.rollback(commits)
    assert any("in the place of 1" in str(wave) for wave in waves)
    assert bed.windowing().find(window.id).is_done
    assert bed.payloads() == [*APART_TO_THREE[:6], (4, 0, good(41)), *APART_TO_THREE[7:]]
    assert wrong(prove(bed)) == []


def test_rows_that_another_engine_has_deleted_are_a_reason_to_refuse(bed: UnpackBed):
    window = bed.to_unpack(TO_THREE)
    table = bed.lake.handle().open()
    path = next(path for path in files_of(bed) if "2" in pq.read_table(path)["sequence_number"].to_pylist())
    delete_rows(table, path, 0)
    with pytest.raises(WrongShape, match="rewrite_data_files"):
        bed.unpack(window)


def test_rows_that_another_engine_deletes_meanwhile_dont_come_back(bed: UnpackBed):
    path = next(path for path in files_of(bed) if "2" in pq.read_table(path)["sequence_number"].to_pylist())
    with pytest.raises(Transient, match="run the window again"):
        bed.unpack(
            bed.to_unpack(TO_THREE),
            at=at_arrow("staged", lambda: delete_rows(bed.lake.handle().open(), path, 0)),
        )


def land_twice(bed: UnpackBed) -> None:
    table = bed.lake.handle()
    at = table.load().positions.of(A)
    back = Range(Kind.REPOSITION, A, at, Position(1, arrival=NOON), run="r", claim="r", why="a test")
    table.commit(Proposal((back,)))
    bed.land(A, {2: packed(21, 22, 23)})


def test_records_that_landed_twice_make_no_window(bed: UnpackBed):
    land_twice(bed)
    with pytest.raises(WrongShape, match="twice"):
        bed.to_unpack(ALL_OF_A)


def test_records_that_landed_twice_since_arent_taken_apart(bed: UnpackBed):
    window = bed.to_unpack(ALL_OF_A)
    land_twice(bed)
    before = bed.payloads()
    with pytest.raises(WrongShape, match="twice in the window"):
        bed.unpack(window)
    assert bed.payloads() == before


def test_a_cancelled_window_changes_nothing(bed: UnpackBed):
    window = bed.to_unpack(TO_THREE)
    with pytest.raises(Unknown, match="cancelled"):
        bed.unpack(window, at=at_arrow("staged", lambda: bed.windowing().say(window.id, Word.CANCELLED)))
    assert bed.payloads() == KEPT


def test_the_proof_counts_the_new_rows_and_finds_a_row_that_is_missing_or_twice(bed: UnpackBed):
    assert prove(bed).records == 6
    bed.unpack(bed.to_unpack(TO_THREE))
    proof = prove(bed)
    assert wrong(proof) == []
    assert proof.records == 9
    # The last user record of the range's last aggregate is at the edge of the range.
    with proofs.changed(bed.lake.handle(), 3, lambda row: [] if row["sub_sequence_number"] == 1 else [row]):
        assert any("ledger states" in each for each in wrong(prove(bed, anew=True)))
    # As many rows as before, but one is there twice in the place of another one.
    with proofs.changed(
        bed.lake.handle(),
        2,
        lambda row: [{**row, "sub_sequence_number": max(1, row["sub_sequence_number"])}],
    ):
        told = wrong(prove(bed, anew=True))
    assert told
    assert not any("ledger states" in each for each in told), told


def test_a_lost_row_and_an_extra_row_of_two_landings_are_both_found_after_one_wave_took_both_apart(
    bed: UnpackBed,
):
    bed.unpack(bed.to_unpack(ALL_OF_A))
    lake = bed.lake.handle()
    with (
        proofs.changed(lake, 1, lambda _: []),
        proofs.changed(lake, 5, lambda row: [row, {**row, "sub_sequence_number": 1}]),
    ):
        told = wrong(prove(bed, anew=True))
    assert len([each for each in told if "ledger states" in each]) == 2, told


def test_a_copy_of_a_window_that_was_made_before_says_why_it_has_more_rows(bed: UnpackBed):
    window = WindowBed.window(bed, ALL_OF_A)
    bed.unpack(bed.to_unpack(ALL_OF_A))
    (wave,) = bed.replaying(window).waves()
    assert wave.rows == 8
    assert (
        "stated 5 when the window was made: aggregates of its records may have been taken apart"
        in wave.notes[0]
    )
