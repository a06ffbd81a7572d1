"""What every implementation of the lake table promises to compaction and retention."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.upkeep.ports import LiveTable, Rewriter
from headrace.pipeline.upkeep.rewrite_plan import Rewritten, plan_compaction
from tests.lake.merge_on_read import delete_rows
from tests.lake.samples import NOON, ORIGIN, a_key, a_landing
from tests.lake.tables import IcebergLake, Lake, MemoryLake, rows_in_file
from tests.memory.live import MemoryLive, MemoryRewriter
from tests.upkeep.compactions import InProcess

A = a_key(0)


@dataclass
class Made:
    lake: Lake
    live: LiveTable
    rewriter: Rewriter
    delete: Callable[[LiveFile], object]
    """Delete rows of a file, as another engine does by a delete file."""
    number: int = 0

    def land(self) -> None:
        after = self.number or None
        self.number += 2
        spec = self.lake.table.staging_spec()
        made = a_landing(spec, A, after=after, numbers=[self.number - 1, self.number])
        made = replace(made, files=tuple(replace(each, staged_at=self.lake.clock.at) for each in made.files))
        self.lake.table.commit(made)
        if isinstance(self.rewriter, MemoryRewriter):
            self.rewriter._rows[made.files[0].path] = tuple(rows_in_file(made.files[0]))

    def rewritten(self) -> tuple[Rewritten, ...]:
        now = self.lake.clock.at + timedelta(days=1)
        plan = plan_compaction(self.live.live(), now=now, after=timedelta(hours=1), target=1 << 20)
        return self.rewriter(plan.groups)

    def numbers(self) -> list[int]:
        """The sequence numbers of main's rows, by the files that are live."""
        if isinstance(self.rewriter, MemoryRewriter):
            files = self.live.live().files
            return sorted(n for each in files for _, n in self.rewriter._rows[each.path])
        return self.lake.numbers().get(A.shard_id, [])


@pytest.fixture(params=["memory", "iceberg"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    if request.param == "iceberg":
        real = IcebergLake(tmp_path)
        real.clock.at = datetime.now(UTC) + timedelta(hours=1)
        handle = real.iceberg
        made = Made(
            real,
            IcebergLive(handle),
            InProcess(handle),
            lambda file: delete_rows(real.handle().open(), file.path, 0),
        )
    else:
        lake = MemoryLake(tmp_path)
        memory = MemoryLive(lake.memory)

        def delete(file: LiveFile) -> None:
            memory.deletes[file.path] = frozenset({"a delete file"})

        made = Made(lake, memory, MemoryRewriter({}, lake.clock), delete)
    made.lake.table.commit(ORIGIN)
    for _ in range(5):
        made.land()
    return made


def test_a_replacement_keeps_rows_and_positions_and_counts_as_headraces_own(made: Made):
    positions = made.lake.table.load().positions
    replaced = made.live.replace(made.rewritten())
    assert len(replaced.done) == 1
    assert not replaced.left
    state = made.lake.table.load()
    assert (state.snapshot, state.positions) == (replaced.snapshot, positions)
    assert state.shape.foreign == 0
    assert made.numbers() == list(range(1, 11))
    assert [each.rows for each in made.live.live().files] == [10]
    made.land()
    assert made.numbers() == list(range(1, 13))


def test_a_landing_before_the_commit_keeps_its_position(made: Made):
    rewritten = made.rewritten()
    made.lake.before_next_swap(made.land)
    assert len(made.live.replace(rewritten).done) == 1
    position = made.lake.table.load().positions.of(A)
    assert position is not None
    assert position.sequence == 12
    assert made.numbers() == list(range(1, 13))


def test_a_group_with_rows_deleted_meanwhile_is_left(made: Made):
    rewritten = made.rewritten()
    made.delete(made.live.live().files[0])
    head = made.lake.table.load().snapshot
    replaced = made.live.replace(rewritten)
    assert (replaced.snapshot, replaced.done) == (None, ())
    assert "deleted rows" in replaced.left[0].why
    assert made.lake.table.load().snapshot == head


def test_a_group_with_rows_deleted_after_a_refused_attempt_is_left(made: Made):
    """What was judged for the first attempt says nothing about the second: another engine may have deleted rows in between."""
    rewritten = made.rewritten()

    def overtake() -> None:
        made.land()
        made.delete(next(each for each in made.live.live().files if each in rewritten[0].group.files))

    made.lake.before_next_swap(overtake)
    replaced = made.live.replace(rewritten)
    assert (replaced.snapshot, replaced.done) == (None, ())
    assert "deleted rows" in replaced.left[0].why
    assert {each.path for each in rewritten[0].group.files} <= {each.path for each in made.live.live().files}


def test_of_two_replacements_of_the_same_files_one_is_left(made: Made):
    first, second = made.rewritten(), made.rewritten()
    assert made.live.replace(first).done
    replaced = made.live.replace(second)
    assert "another commit has removed" in replaced.left[0].why
    assert made.numbers() == list(range(1, 11))


def test_a_replacement_whose_answer_was_lost_has_landed_once(made: Made):
    rewritten = made.rewritten()
    made.lake.lose("answer")
    assert len(made.live.replace(rewritten).done) == 1
    assert made.numbers() == list(range(1, 11))


def test_a_replacement_whose_request_was_lost_is_unknown_and_changes_nothing(made: Made):
    rewritten = made.rewritten()
    head = made.lake.table.load().snapshot
    made.lake.lose("request")
    with pytest.raises(CommitUnknown):
        made.live.replace(rewritten)
    assert made.lake.table.load().snapshot == head


def test_a_rollback_brings_the_former_files_back(made: Made):
    before = made.live.live()
    made.live.replace(made.rewritten())
    made.lake.rollback(1)
    assert set(made.live.live().files) == set(before.files)
    assert made.numbers() == list(range(1, 11))


def test_dropped_days_leave_the_table_and_positions_stay(made: Made):
    positions = made.lake.table.load().positions
    day = NOON.date()
    assert not made.live.drop(day)
    assert made.lake.table.load().kept_from is None
    assert len(made.live.drop(day + timedelta(days=1))) == 5
    assert made.lake.table.load().kept_from == day + timedelta(days=1)
    assert not made.live.live().files
    assert made.numbers() == []
    assert made.lake.table.load().positions == positions
    assert not made.live.drop(date(2030, 1, 1))
    assert made.lake.table.load().kept_from == day + timedelta(days=1), "no commit, no other statement"
    # Rows of an earlier day may land late. What was removed before stays removed.
    made.land()
    assert made.live.drop(day + timedelta(days=2))
    made.land()
    assert made.live.drop(day + timedelta(days=1))
    assert made.lake.table.load().kept_from == day + timedelta(days=2)
