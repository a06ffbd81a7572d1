"""The judge of a compaction: does it only write the same rows into other files (I12, I35)?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.memory.table import Snapshot
from tests.simulation.watch.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.watch.table_watch import WatchedTable
    from tests.simulation.world import World


def judge_rewrite(world: World, table: WatchedTable, made: Snapshot, by: str) -> None:
    """I35: a compaction changes no row and no position, and replaces only files that readers of its base read."""
    rows = world.stage.rows
    live = {file.path for file in table.files_at(made.parent)}
    if gone := made.replaced - live:
        raise Violation("I35", f"{by} replaces {min(gone)}, which isn't in snapshot {made.parent}")
    if held := made.replaced & world.live.deletes.keys():
        raise Violation(
            "I35", f"{by} replaces {min(held)}, of which another engine has deleted rows: they come back"
        )
    before = sorted(row for path in made.replaced for row in rows[path])
    after = [row for file in made.files for row in rows[file.path]]
    if before != sorted(after):
        raise Violation("I35", f"{by} replaces {len(before)} rows by {len(after)} others")
    if any(list(rows[file.path]) != sorted(rows[file.path]) for file in made.files):
        raise Violation("I12", f"{by} wrote rows out of order")
    if made.positions != table.state_at(made.parent).positions:
        raise Violation("I35", f"{by} committed other positions than those of snapshot {made.parent}")
    world.note(by, f"snapshot {made.id} has {len(made.files)} files for {len(made.replaced)}")
