"""A proof of all rows says the same whether it counts all days at once or each day by itself."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.ledger import Kind, Range
from headrace.pipeline.core.ledger.live_files import LiveFile
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.proof.spans import FileCount, ShardSpans
from headrace.pipeline.proof.spark import IcebergProof
from headrace.pipeline.proof.verdict import Proof
from tests.lake.samples import NOON, a_file
from tests.proof.proofs import DAY, LEFT, MERGED, SECOND, Family, ranges_of

Damage = Callable[[Family], object]


@pytest.fixture
def family(tmp_path: Path) -> Family:
    made = Family(tmp_path)
    made.land((LEFT, 45), (MERGED, 65), arrival=NOON + DAY)
    over_midnight(made, 50)
    made.land((LEFT, 55), (MERGED, 70), arrival=NOON + 2 * DAY)
    made.land((LEFT, 60), arrival=NOON + 4 * DAY)
    return made


def over_midnight(family: Family, upto: int) -> None:
    """A range whose rows are in a file of the second day and in one of the third."""
    at = family.table.load().positions.of(LEFT)
    assert at is not None
    assert at.sequence is not None
    times = NOON + DAY + timedelta(hours=11), NOON + DAY + timedelta(hours=13)
    spec = family.table.staging_spec()
    cut = upto - 2
    files = tuple(
        replace(a_file(spec, {LEFT: numbers}, arrival=time), staged_at=family.lake.clock.at)
        for time, numbers in zip(
            times, ([*range(at.sequence + 1, cut)], [*range(cut, upto + 1)]), strict=True
        )
    )
    names = tuple(Path(each.path).name for each in files)
    made = Range(
        Kind.LANDED,
        LEFT,
        at,
        Position(upto, arrival=times[1]),
        run="run-1",
        claim="c",
        rows=upto - at.sequence,
        first_arrival=times[0],
        last_arrival=times[1],
        files=names,
    )
    assert not family.lake.handle().commit(Proposal((made,), files)).landing.refused


def proofs_of(family: Family) -> tuple[Proof, Proof]:
    at_once, by_day = (replace(family.proving(), most_ranges=most).run(anew=True) for most in (1_000_000, 1))
    return at_once, by_day


def test_a_whole_table_is_proved_in_rounds(family: Family):
    at_once, by_day = proofs_of(family)
    assert at_once == by_day
    assert by_day.holds
    assert by_day.lake.rows == 53 + 7 + 5 + 5 + 5 + 5 + 5


def test_each_file_is_counted_once_and_each_round_has_only_ranges_of_its_days(family: Family):
    asked: list[tuple[int, int]] = []

    class Watched(IcebergProof):
        def count(self, files: Sequence[LiveFile], spans: Sequence[ShardSpans]) -> tuple[FileCount, ...]:
            asked.append((len(files), sum(wanted == 1 for each in spans for wanted in each.claims)))
            return super().count(files, spans)

    table = Watched(family.lake.handle(), family.tasks)
    assert replace(family.proving(), table=table, most_ranges=1).run(anew=True).holds
    assert [files for files, _ in asked] == [6, 2, 2, 1]
    assert [ranges for _, ranges in asked] == [9, 3, 3, 1]


def _twice(family: Family) -> None:
    family.change_rows(LEFT, 46, lambda row: [row, row])


def _in_two_files(family: Family) -> None:
    """A row of a range over midnight, in the place of another one of that range in the file of the next day."""
    family.change_rows(LEFT, 49, lambda row: [{**row, "sequence_number": "46"}])


def _on_another_day(family: Family) -> None:
    family.change_rows(LEFT, 60, lambda row: [{**row, "sequence_number": "33"}])


def _without_range(family: Family) -> None:
    family.change_ledgers(lambda row: [] if ranges_of(MERGED, 65)(row) else [row])


def _everywhere(family: Family) -> None:
    for number in (60, 50, 45, 35):
        family.change_rows(LEFT, number, lambda _: [])
    family.change_rows(SECOND, 105, lambda _: [])


@pytest.mark.parametrize(
    "damage",
    [
        lambda family: family.change_rows(LEFT, 46, lambda _: []),
        lambda family: family.change_rows(LEFT, 60, lambda _: []),
        lambda family: family.change_rows(LEFT, 36, lambda row: [row, {**row, "sequence_number": "999"}]),
        _twice,
        _in_two_files,
        _on_another_day,
        _without_range,
        _everywhere,
    ],
)
def test_damage_is_found_and_told_in_the_same_words(family: Family, damage: Damage):
    damage(family)
    at_once, by_day = proofs_of(family)
    assert not at_once.holds
    assert list(at_once.lines()) == list(by_day.lines())


@pytest.mark.parametrize("kind", [Kind.SKIPPED, Kind.REPAIR, Kind.REPOSITION])
def test_what_a_person_decided_is_told_in_the_same_words(family: Family, kind: Kind):
    family.move(LEFT, {Kind.SKIPPED: 66, Kind.REPAIR: 60, Kind.REPOSITION: 43}[kind], kind)
    family.land((LEFT, 70), arrival=NOON + 5 * DAY)
    at_once, by_day = proofs_of(family)
    assert list(at_once.lines()) == list(by_day.lines())
    assert by_day.holds


def test_rows_that_came_on_a_day_that_their_range_does_not_tell_of_are_counted(family: Family):
    tell = lambda each: replace(each, first_arrival=NOON, last_arrival=NOON)  # noqa: E731
    family.land((LEFT, 64), arrival=NOON + 5 * DAY, extra=tell)
    at_once, by_day = proofs_of(family)
    assert list(at_once.lines()) == list(by_day.lines())
    assert by_day.holds


def test_after_a_proof_in_rounds_only_new_rows_are_read(family: Family):
    assert replace(family.proving(), most_ranges=1).run().holds
    family.compact()
    family.land((LEFT, 66), arrival=NOON + 5 * DAY)
    proof = family.prove()
    assert proof.holds
    assert proof.lake.since is not None


def test_a_lost_ledger_is_told_in_the_same_words(family: Family):
    family.lake.expire_all_but_the_head(forget=True)
    family.land((LEFT, 70), (MERGED, 73), arrival=NOON + 5 * DAY)
    at_once, by_day = proofs_of(family)
    assert list(at_once.lines()) == list(by_day.lines())
