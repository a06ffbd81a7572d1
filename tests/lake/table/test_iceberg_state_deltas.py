"""The state of many shards on real Iceberg: each snapshot names a full file and a file with what has changed since."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.landing.repair_plan import Repair, plan_repair
from headrace.pipeline.core.order.parents import a_family
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.errors import ChainBroken
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table import summary
from headrace.pipeline.lake.table.state_files import Pointer, StateFiles
from tests.lake.samples import NOON, STREAM, a_file, a_key, a_landing, a_range, with_origin
from tests.lake.tables import IcebergLake, append_as_others, rewrite_metadata

SHARDS = 20
ENDED, CHILD = a_key(7), a_key(8)
A, B = a_key(0), a_key(1)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IcebergLake:
    """Twenty shards whose state is in files, as that of thousands is. Each stands at 10 with one row; shard 7 has ended."""
    monkeypatch.setattr(summary, "LIMIT", 0)
    made = IcebergLake(tmp_path)
    keys = [a_key(n) for n in range(SHARDS)]
    file = a_file(made.iceberg.staging_spec(), {key: [10] for key in keys})
    ranges = [a_range(key, None, 10, rows=1, files=[file]) for key in keys]
    ranges[7] = replace(ranges[7], upto=Position(10, ended=True, children=(CHILD.shard_id,), arrival=NOON))
    made.iceberg.commit(with_origin(Proposal(tuple(ranges), (file,))))
    return made


def land(lake: IcebergLake, *numbers: int, shard: int = 0) -> None:
    """One commit for each number."""
    for number in numbers:
        table, key = lake.iceberg, a_key(shard)
        before = table.load().positions.of(key)
        proposal = a_landing(
            table.staging_spec(), key, after=before.sequence if before else None, numbers=[number]
        )
        assert not table.commit(proposal).landing.refused


def pointer(lake: IcebergLake) -> Pointer:
    head = lake.iceberg.open().current_snapshot()
    assert head is not None
    assert head.summary is not None
    return Pointer.read(head.summary.additional_properties["headrace.state"])


def standing(lake: IcebergLake) -> dict[str, int | None]:
    """The positions as another process reads them, by shard."""
    return {key.shard_id: p.sequence for key, p in lake.handle().load().positions.shards.items()}


def expected(**moved: int) -> dict[str, int]:
    """Twenty shards at 10, except for these."""
    return {a_key(n).shard_id: moved.get(f"s{n}", 10) for n in range(SHARDS)}


def file_of(lake: IcebergLake, name: str) -> Path:
    return lake.folder / "state" / name


# --- what is written ------------------------------------------------------------------------------------------


def test_a_landing_writes_what_has_changed_since_the_full_file(lake: IcebergLake):
    full = pointer(lake)
    assert full.delta is None
    land(lake, 11)
    land(lake, 12, shard=1)
    last = pointer(lake)
    assert last.full == full.full
    assert last.delta is not None
    assert standing(lake) == expected(s0=11, s1=12)
    assert file_of(lake, last.delta.name).stat().st_size < file_of(lake, full.full.name).stat().st_size


def test_a_new_full_file_is_written_when_the_deltas_together_have_as_many_shards(lake: IcebergLake):
    first = pointer(lake).full
    land(lake, *range(11, 11 + SHARDS))
    assert pointer(lake).full == first
    land(lake, 50)
    assert pointer(lake).full != first
    assert pointer(lake).delta is None
    assert standing(lake) == expected(s0=50)


def test_a_shard_that_was_dropped_does_not_come_back_from_the_full_file(lake: IcebergLake):
    lake.iceberg.commit(Proposal(drop=(ENDED,)))
    land(lake, 11, 12)
    gone = expected(s0=12)
    del gone[ENDED.shard_id]
    assert standing(lake) == gone
    land(lake, 5, shard=7)
    assert standing(lake) == expected(s0=12, s7=5)


def test_each_snapshots_ledger_is_its_own(lake: IcebergLake):
    land(lake, 11)
    land(lake, 12, shard=1)
    pages = [entry.page for entry in read.ledger(lake.handle())]
    assert [len(page.ranges) for page in pages] == [SHARDS, 1, 1]
    assert [(r.key, r.upto.sequence) for page in pages[1:] for r in page.ranges] == [(A, 11), (B, 12)]


def test_a_carried_state_is_the_state(lake: IcebergLake):
    land(lake, 11)
    lake.iceberg.carry()
    assert standing(lake) == expected(s0=11)


def test_a_process_that_has_the_state_in_memory_reads_it_like_a_new_one(lake: IcebergLake):
    other = lake.handle()
    for number in (11, 12, 13):
        other.load()
        land(lake, number)
        assert other.load().positions == lake.handle().load().positions == lake.iceberg.load().positions


# --- other engines --------------------------------------------------------------------------------------------


def test_after_a_rollback_the_positions_are_those_of_that_snapshot_and_landing_goes_on(lake: IcebergLake):
    land(lake, 11)
    # A full file comes after the snapshot to which the table is rolled back.
    land(lake, *range(100, 100 + SHARDS), shard=1)
    lake.rollback(SHARDS)
    assert standing(lake) == expected(s0=11)
    land(lake, 12)
    assert standing(lake) == expected(s0=12)
    assert lake.numbers()[A.shard_id] == [10, 11, 12]


def test_one_snapshot_is_enough_for_the_state(lake: IcebergLake):
    land(lake, 11)
    land(lake, 12, shard=1)
    lake.expire_all_but_the_head(forget=True)
    assert len(lake.iceberg.open().metadata.snapshots) == 1
    assert standing(lake) == expected(s0=11, s1=12)
    land(lake, 13)
    assert standing(lake) == expected(s0=13, s1=12)


def test_a_refused_commit_leaves_the_state_of_the_one_that_landed(lake: IcebergLake):
    rival = IcebergLake(lake.folder)
    lake.before_next_swap(lambda: land(rival, 11, shard=1))
    land(lake, 11)
    assert standing(lake) == expected(s0=11, s1=11)
    lake.before_next_swap(lambda: append_as_others(lake.handle().open()))
    land(lake, 12)
    assert standing(lake) == expected(s0=12, s1=11)


# --- what is wrong is refused ---------------------------------------------------------------------------------


def remove_full(lake: IcebergLake) -> None:
    file_of(lake, pointer(lake).full.name).unlink()


def damage_full(lake: IcebergLake) -> None:
    path = file_of(lake, pointer(lake).full.name)
    path.write_text(path.read_text().replace("2:", "2:A", 1))


def remove_delta(lake: IcebergLake) -> None:
    file_of(lake, pointer(lake).own.name).unlink()


def lose_a_change(lake: IcebergLake) -> None:
    """As a bug of Headrace would: the delta lacks the last landing, and everything else fits."""
    now = pointer(lake)
    before = [Pointer.read(link.summary["headrace.state"]) for link in lake.iceberg.history()][1]
    wrong = replace(now, delta=before.delta)
    rewrite_metadata(
        lake, lambda content: content["snapshots"][-1]["summary"].update({"headrace.state": str(wrong)})
    )


BROKEN = [
    (remove_full, "is gone.*headrace repair"),
    (damage_full, "hash differs.*headrace repair"),
    (remove_delta, "is gone.*headrace repair"),
    (lose_a_change, "digest differs.*headrace repair"),
]


@pytest.mark.parametrize(("spoil", "error"), BROKEN, ids=[spoil.__name__ for spoil, _ in BROKEN])
def test_a_state_that_is_not_whole_is_refused_until_a_repair_takes_it_from_the_rows(
    lake: IcebergLake, spoil: Callable[[IcebergLake], None], error: str
):
    land(lake, 11, 12)
    landing = a_landing(lake.iceberg.staging_spec(), A, after=12, numbers=[13])
    snapshots = len(lake.iceberg.open().metadata.snapshots)
    spoil(lake)
    # The first table has the state in memory, and refuses it all the same.
    for table in (lake.iceberg, lake.handle()):
        with pytest.raises(ChainBroken, match=error):
            table.commit(landing)
    assert len(lake.iceberg.open().metadata.snapshots) == snapshots
    repair = plan_repair(
        lake.handle().evidence([STREAM]),
        {STREAM: a_family(STREAM, ())},
        origins=dict(with_origin(Proposal()).origins),
        why="a test",
        run="shell",
    )
    assert isinstance(repair, Repair)
    lake.iceberg.rebuild(repair.landing, repair.on)
    assert standing(lake)[A.shard_id] == 12
    assert pointer(lake).delta is None
    assert not lake.iceberg.commit(landing).landing.refused
    assert lake.numbers()[A.shard_id] == [10, 11, 12, 13]


def test_the_memory_of_a_process_never_replaces_a_look_at_the_files(lake: IcebergLake, tmp_path: Path):
    land(lake, 11)
    states = lake.iceberg.states
    elsewhere = StateFiles(str(tmp_path / "other"), states.options, states.kept)
    head = lake.iceberg.open().current_snapshot()
    assert head is not None
    assert head.summary is not None
    with pytest.raises(ChainBroken, match="is gone"):
        summary.positions_in(head.summary.additional_properties, elsewhere)
