"""Why the positions can't be repaired after a person cherry-picked a snapshot of the lake table, and what helps:
sentences for people. Pure functions on values.

    the table's position     the cherry-picked rows
    before their range       have a gap below them, of records that aren't in the table
    within their range       are there twice up to the position
    at or beyond its end     are there twice, because the records had landed again after a rollback; or a person has moved the position over them

Deleting rows by shard and number takes away both copies of a record, and nothing reads it again: it is never the
advice. A rollback to the snapshot before the cherry-pick takes away exactly what the cherry-pick brought.
"""

from __future__ import annotations

from headrace.pipeline.core.landing.landing import RangeRefused
from headrace.pipeline.core.shards.position import Position, is_forward, reaches


def picked_trouble(snapshot: int, refused: RangeRefused, *, before: int | None) -> str:
    """The sentences about a cherry-picked snapshot whose range doesn't begin at its shard's position.

    `snapshot`: the cherry-pick. `before`: the snapshot below it on main.
    """
    picked, position = refused.range, refused.position
    brought = (
        f"snapshot {snapshot} is a cherry-pick that brought rows of {picked.key} "
        f"from after {picked.after or 'its start'} up to {picked.upto}"
    )
    return f"{brought}, {_why(refused)}. Nothing was changed. {way_back(before)}; {_then(picked.after, position)}"


def way_back(before: int | None) -> str:
    """The sentence about the only way out that neither loses nor doubles a record: a rollback. `before`: the
    snapshot below the cherry-pick.
    """
    to = (
        "the snapshot before the cherry-pick"
        if before is None
        else f"snapshot {before}, the one before the cherry-pick"
    )
    return (
        "Delete no rows by shard and number: of records that are there twice this removes both copies. "
        f"Roll main back to {to} "
        "(`rollback_to_snapshot`), which also undoes what other engines have committed since"
    )


def _why(refused: RangeRefused) -> str:
    picked, position = refused.range, refused.position
    where = f"but the table's position is {position or 'none'}"
    # The position is where the range began, so that something else was in the way, such as a parent.
    if _token(position) == _token(picked.after):
        return f"but {refused.why}"
    if position is not None and reaches(position, picked.upto):
        return (
            f"{where}, beyond them: the records had landed again, "
            "and are in the table twice now, unless a person had moved the position over them"
        )
    if position is not None and (picked.after is None or is_forward(picked.after, position)):
        return f"{where}, within them: the records up to there are in the table twice now"
    return f"{where}: the records between are missing"


def _then(after: Position | None, position: Position | None) -> str:
    if position is None or (after is not None and not is_forward(after, position)):
        return "then landing goes on at the table's position, and reads these records again as long as the stream has them"
    return "then landing goes on by itself"


def _token(position: Position | None) -> object:
    return None if position is None else position.token
