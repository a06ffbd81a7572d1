"""Thousands of random lives of a stream, with incomplete listings, lost rows and earlier readers: every shard is
read once, after its parents, and no shard is left unread."""

from __future__ import annotations

from random import Random

import pytest

from headrace.pipeline.core.leases.lease import Lease
from headrace.pipeline.core.order.parents import parents_first
from headrace.pipeline.core.shards.checkpoint import AT_TIMESTAMP, LATEST, SHARD_END, TRIM_HORIZON, Checkpoint
from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.core.shards.stream import ShardKey
from tests.core.stream_life import STREAM, Stream, World, moment

SEEDS = 300
"""How many seeds are run with each combination of parameters in this file."""
STARTS = (TRIM_HORIZON, LATEST, AT_TIMESTAMP)


def in_scope(world: World, since: int) -> set[str]:
    stream = world.stream
    origin = world.origin
    return {
        name
        for name in stream.shards
        if not stream.is_gone(name, since) and (origin is None or stream.closed.get(name, 10**9) >= origin)
    }


def check_order(world: World, wanted: set[str]) -> None:
    """Check that each parent was begun before its children."""
    for name in world.begun:
        for parent in set(world.stream.shards[name].parents) & wanted:
            assert world.begun.index(parent) < world.begun.index(name)


@pytest.mark.parametrize("initial", STARTS, ids=str)
@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_every_shard_in_scope_is_read_once_and_after_its_parents(
    initial: Checkpoint, *, trouble: bool
) -> None:
    rests = 0
    for seed in range(SEEDS):
        dice = Random(f"{seed}-{initial}-{trouble}")
        stream = Stream(dice, reshards=dice.randrange(9))
        began = dice.randrange(stream.over)
        origin = {TRIM_HORIZON: None, LATEST: began, AT_TIMESTAMP: dice.randrange(began + 1)}[initial]
        world = World(stream, origin, began)
        wanted = in_scope(world, began)
        world.live(stream.over, trouble=trouble)
        world.settle()
        assert sorted(world.begun) == sorted(wanted), f"seed {seed}"
        check_order(world, wanted)
        open_rows = [row for row in world.rows.values() if not row.has_ended]
        assert {row.shard_id for row in open_rows} == {s for s in wanted if s not in stream.closed}
        rests += world.rests
    assert rests > SEEDS / 4


@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_shards_whose_rows_and_ends_were_deleted_are_never_read_again(*, trouble: bool) -> None:
    """The stream forgets soon, so that clean-ups delete while reshards go on. A shard that leaves the stream unread
    stops."""
    let_go = 0
    for seed in range(SEEDS):
        dice = Random(f"{seed}-{trouble}")
        stream = Stream(dice, reshards=3 + dice.randrange(9), keeps=dice.randrange(200, 800))
        world = World(stream, None, 0)
        world.live(stream.over, trouble=trouble)
        world.settle()
        world.now += stream.keeps
        for _ in range(3):
            world.clean()
            world.settle()
        check_order(world, {s for s in stream.shards if s in world.begun})
        read_on = {s for s in world.begun if s not in stream.closed}
        ended = {k.shard_id for k, at in world.positions.shards.items() if at.ended}
        let_go += len([s for s in world.begun if s not in ended and s in stream.closed])
        for name in read_on:
            assert not world.positions.has_ended(ShardKey(STREAM, name))
        for name in set(stream.shards) - set(world.begun):
            assert is_reported(world, name), f"seed {seed}: {name} was passed over without a report"
    assert let_go > SEEDS / 6, "no clean-up deleted a row"


def ancestors(stream: Stream, name: str) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        above = set(stream.shards[todo.pop()].parents) - found
        found |= above
        todo += above
    return found


def is_reported(world: World, name: str) -> bool:
    """Whether the loss of a shard is reported: an open row of the shard, or of a waiting relative, stops with a
    sentence. Where those rows were lost too, a descendant is read with a witness from before the loss."""
    stream = world.stream
    after = {other for other in stream.shards if name in ancestors(stream, other)}
    open_rows = {row.shard_id for row in world.rows.values() if not row.has_ended}
    return bool(({name} | ancestors(stream, name) | after) & open_rows) or bool(after & set(world.begun))


# --- after adoption -----------------------------------------------------------------------------------------


def a_kcl_state(stream: Stream, now: int) -> tuple[dict[str, Lease], dict[str, str]]:
    """Rows as KCL's workers leave them at some time, and how far they have read each shard: unread, reading or
    ended."""
    dice = stream.dice
    rows: dict[str, Lease] = {}
    state: dict[str, str] = {}
    parents = {s.shard_id: frozenset(s.parents) for s in stream.shards.values()}
    for name in parents_first(stream.shards, parents):
        its = stream.shards[name].parents
        if stream.born[name] > now:
            continue
        ready = all(state.get(p) == "ended" for p in its)
        some = not its or any(state.get(p) in {"ended", "ending"} for p in its)
        if not some:
            continue
        # A merged shard's row is made when its parents end, and only if both of them have rows.
        others = {p for child in stream.children(name) for p in stream.shards[child].parents} - {name}
        may_end = stream.closed.get(name, now + 1) <= now and others <= rows.keys()
        choices = ["unread", "reading", *(["ending", "ended", "ended"] if may_end else [])]
        state[name] = dice.choice(choices) if ready else "unread"
        at = {
            "unread": TRIM_HORIZON,
            "reading": Checkpoint("1"),
            "ending": Checkpoint("1"),
            "ended": SHARD_END,
        }
        ending = state[name] in {"ending", "ended"}
        rows[name] = Lease(
            name,
            checkpoint=at[state[name]],
            parents=frozenset(its),
            children=frozenset(stream.children(name)) if ending else frozenset(),
            stream_epoch=STREAM.epoch,
        )
    return rows, state


def kcl_cleans(stream: Stream, rows: dict[str, Lease], state: dict[str, str]) -> None:
    """Delete rows as KCL's clean-up does."""
    for name in sorted(rows):
        begun = all(c in rows and rows[c].checkpoint != TRIM_HORIZON for c in stream.children(name))
        orphan = all(p not in rows for p in stream.shards[name].parents)
        if state[name] == "ended" and begun and orphan and stream.dice.random() < 0.7:
            del rows[name]


def adopted(stream: Stream, rows: dict[str, Lease]) -> dict[ShardKey, Position]:
    """The rows' own positions. A shard without a row has ended if a descendant has a row."""
    at: dict[ShardKey, Position] = {}
    for name, row in rows.items():
        if row.checkpoint.is_end:
            at[ShardKey(STREAM, name)] = Position(ended=True, children=tuple(sorted(row.children)))
        elif row.checkpoint.is_digits:
            at[ShardKey(STREAM, name)] = Position(int(row.checkpoint.sequence))
        else:
            at[ShardKey(STREAM, name)] = Position(start=TRIM)
    return at


@pytest.mark.parametrize("trouble", [False, True], ids=["calm", "trouble"])
def test_after_adoption_shards_that_kcl_ended_are_not_read_and_all_others_are_read_once(
    *, trouble: bool
) -> None:
    for seed in range(SEEDS):
        dice = Random(f"adopted-{seed}-{trouble}")
        stream = Stream(dice, reshards=1 + dice.randrange(9))
        now = dice.randrange(1, stream.over)
        rows, state = a_kcl_state(stream, now)
        kcl_cleans(stream, rows, state)
        if not rows:
            continue
        positions = Positions({STREAM: Origin(TRIM, moment(now))}, adopted(stream, rows))
        world = World(stream, None, now, positions, dict(rows))
        world.live(stream.over, trouble=trouble)
        world.settle()
        known = {name for name in state if name in rows}
        expected = set(stream.shards) - set(state)
        assert sorted(world.begun) == sorted(expected), f"seed {seed}: {known}"
        for name, was in state.items():
            if was != "ended" and name in stream.closed:
                assert world.positions.has_ended(ShardKey(STREAM, name)), f"seed {seed}: {name} was {was}"
