"""The judge of a typed table or a processor that refuses to go on, because the lake table was set to a snapshot where it has rows that the
table has passed; and the person who says `--accept-difference` then."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import WrongShape
from headrace.pipeline.typed.check_wave import SET_ELSEWHERE
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.pipeline.core.shards.position import Position
    from tests.memory.table import MemoryTable
    from tests.simulation.watch.typed_watch import TypedWatch
    from tests.simulation.world import World


def accept_passed(
    world: World, watch: TypedWatch, error: WrongShape, looked: int | None, *, began: float
) -> bool:
    """Whether the error is such a refusal. The rows that it is about are given up by the person, and are no loss. `looked`: the snapshot of
    the lake table at which the wave has looked. `began`: when the wave began."""
    if SET_ELSEWHERE not in str(error):
        return False
    if not watch.times_set_elsewhere:
        raise Violation("I38", f"{watch.name}: nobody has set the lake table elsewhere: {error}")
    passed = give_up_passed(watch, looked, watch.table.load().positions.shards, began=began)
    # An aggregate that was whole when it was parsed may have landed as its records since.
    if not passed and not world.plan.keeps:
        raise Violation("I38", f"{watch.name}: no row was passed: {error}")
    world.call_faults.happened["passed_over"] += 1
    return True


def give_up_passed(
    watch: TypedWatch, looked: int | None, positions: Mapping[ShardKey, Position], *, began: float = inf
) -> set[tuple[ShardKey, int]]:
    """The rows that the table has passed with these positions, at this snapshot of the lake table, but for those about which a commit has noted
    that the person has accepted, if the lake table hasn't been set elsewhere again since. The person gives them up: those of the refusal, and
    those that had come once the accepting wave looked. `began`: when the wave began; it may not know of later commits."""
    passed = set[tuple[ShardKey, int]]()
    for key, position in positions.items():
        there = watch.rows_at(looked, key)
        numbers = {
            number
            for number, row in there.items()
            if watch.has_passed(position, row)
            # The wave that accepts may die before its commit: then the next one is refused for the same rows.
            and ((key, number) in watch.given_up or not watch.is_told(key, number))
        }
        # An aggregate that is taken apart later is given up with all of its records.
        watch.given_up_whole.update((key, number) for number in numbers if there[number].users > 1)
        passed.update((key, number) for number in numbers)
    watch.given_up |= passed
    times = watch.times_set_elsewhere

    def is_accepted(row: tuple[ShardKey, int]) -> bool:
        accepted_at, noted = watch.accepted.get(row, (-1, 0.0))
        return accepted_at == times and noted <= began

    return {row for row in passed if not is_accepted(row)}


def note_accepted(lake: MemoryTable, watch: TypedWatch, snapshot: int | None, now: float) -> None:
    """A wave of a person who accepts has committed this snapshot: nobody is to be asked about the rows of its shards again, unless the lake
    table was set elsewhere since the wave looked."""
    if snapshot is None:
        return
    page = watch.table.snapshots[snapshot].page
    if page.looked is not None and all(
        lake_at.id != page.looked.snapshot for lake_at in lake.history(lake.head)
    ):
        return
    keys = {each.key for each in page.ranges}
    noted = watch.times_set_elsewhere, now
    watch.accepted.update((row, noted) for row in watch.given_up if row[0] in keys)
