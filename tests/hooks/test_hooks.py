"""Hooks of the user's own: each is called once for a change, and none ends or delays a tick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.shards.shard import Child
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadSetting, Throttled
from headrace.pipeline.hooks.calls import MOST_WAITING, HookCalls
from headrace.pipeline.hooks.watching import CalledHooks, hooks_of
from headrace.pipeline.settings.file import parse_settings
from tests.duties.reading import PortsOf
from tests.duties.world import World
from tests.memory.clock import MemoryClock

SOON = timedelta(seconds=20)
"""How long a test waits for a thread at most."""


class _Ports(PortsOf):
    def timer(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()


class Notes:
    """Hooks that note their calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda **arguments: self.calls.append((name, arguments))


def noting(world: World) -> tuple[Notes, HookCalls, Wiring]:
    notes = Notes()
    calls = HookCalls(make=lambda: notes, monotonic=world.clock.monotonic)
    hooks = CalledHooks(calls, world.settings.lease_table)
    return notes, calls, Wiring(world.settings, _Ports(world), hooks=hooks)  # type: ignore[arg-type]


def read_all(world: World, wiring: Wiring, run: str) -> None:
    world.runs.launch(run, "w1")
    world.runs.start(run)
    reading = wiring.reading(run, world.runs, on_wave=lambda _: None, on_waiting=lambda _: None)
    reading.everything_due("w1")
    world.runs.end(run)


def tick(world: World, wiring: Wiring, cursors: dict[str, str | None]) -> list[str]:
    """A tick of the leader and one of the worker. Returns their sentences."""
    leader = wiring.leader_turn(cursors.get("leader"))
    worker = wiring.worker_turn("w1", cursors.get("w1"), instance="dagster-1", runs=world.runs)
    cursors |= {"leader": leader.cursor, "w1": worker.cursor}
    world.clock.advance(timedelta(seconds=5))
    return [leader.sentence, worker.sentence]


def test_each_hook_is_called_once_through_a_workers_life() -> None:
    world = World(shards=1)
    world.tables.missing = True
    notes, calls, wiring = noting(world)
    cursors: dict[str, str | None] = {}
    for _ in range(8):
        tick(world, wiring, cursors)
    world.produce(0)
    read_all(world, wiring, "first")
    world.produce(0)
    world.source.split(world.shard(0))
    read_all(world, wiring, "second")
    for _ in range(2):
        tick(world, wiring, cursors)
    world.rows.set_stopping("w1", stopping=True)
    for _ in range(8):
        tick(world, wiring, cursors)
    assert calls.settle(SOON)

    def told(method: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in notes.calls if name == method]

    shards = [f"shardId-{n:012d}" for n in range(3)]
    assert told("on_tables_created") == [{"lease_table": world.settings.lease_table}]
    assert [call["shard"] for call in told("on_lease_taken")] == shards
    assert told("on_shard_ended") == [{"worker": "w1", "shard": shards[0], "children": shards[1:]}]
    assert sorted(call["shard"] for call in told("on_lease_lost"))[-2:] == shards[1:]
    states = [call["state"] for call in told("on_worker_state")]
    assert states[0] == "working"
    assert states[-1] == "stopped"
    assert len(states) == len(set(states)), "each state once"


def test_a_shards_end_is_told_once_and_only_when_the_rows_of_its_children_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(shards=1)
    rows_at_calls: list[tuple[list[str], list[str]]] = []

    def on_shard_ended(_self: object, worker: str, shard: str, children: list[str]) -> None:
        rows_at_calls.append((children, sorted(row.key for row in world.leases.scan().leases)))

    calls = HookCalls(
        make=type("Hooks", (), {"on_shard_ended": on_shard_ended}), monotonic=world.clock.monotonic
    )
    wiring = Wiring(world.settings, _Ports(world), hooks=CalledHooks(calls, "app"))  # type: ignore[arg-type]
    cursors: dict[str, str | None] = {}
    for _ in range(8):
        tick(world, wiring, cursors)
    world.produce(0)
    read_all(world, wiring, "first")
    world.produce(0)
    children = sorted(key.shard_id for key in world.source.split(world.shard(0)))
    named = world.source.children

    def without_hash_keys(key: ShardKey) -> tuple[Child, ...] | None:
        page = named(key)
        return None if page is None else tuple(replace(child, hash_range=None) for child in page)

    def throttled(*_: object) -> None:
        raise Throttled("ListShards is throttled")

    with monkeypatch.context() as page_tells_less:
        page_tells_less.setattr(world.source, "children", without_hash_keys)
        page_tells_less.setattr(world.source, "list_shards", throttled)
        read_all(world, wiring, "second")
    position = world.table.load().positions.of(world.shard(0))
    assert position is not None
    assert position.ended, "the lake table has the END"
    assert calls.settle(SOON)
    assert rows_at_calls == [], "no row of a child is there"

    world.clock.advance(timedelta(minutes=5))
    for run in ("third", "fourth"):
        read_all(world, wiring, run)
    assert calls.settle(SOON)
    assert rows_at_calls == [(children, [world.shard(0).shard_id, *children])]


def test_a_hook_that_raises_is_told_once_and_the_ticks_go_on() -> None:
    world = World(shards=2)
    hooks = type("Bad", (), {"on_lease_taken": lambda _self, worker, shard: 1 / 0})
    calls = HookCalls(make=hooks, monotonic=world.clock.monotonic)
    wiring = Wiring(world.settings, _Ports(world), hooks=CalledHooks(calls, "app"))  # type: ignore[arg-type]
    cursors: dict[str, str | None] = {}
    said = []
    for _ in range(8):
        said += tick(world, wiring, cursors)
        assert calls.settle(SOON)
    troubles = [sentence for sentence in said if "hook" in sentence]
    assert len(troubles) == 1
    assert "hook on_lease_taken: the hook raised ZeroDivisionError: division by zero" in troubles[0]
    assert [row.owner for row in world.leases.scan().leases] == ["w1"] * 2, "both leases are assigned"


@contextmanager
def hanging(clock: MemoryClock) -> Iterator[tuple[HookCalls, Event]]:
    begun, let_go = Event(), Event()

    def hang(_self: object, **_: object) -> None:
        begun.set()
        let_go.wait(SOON.total_seconds())

    calls = HookCalls(make=type("Hanging", (), {"on_lease_taken": hang}), monotonic=clock.monotonic)
    try:
        yield calls, begun
    finally:
        let_go.set()


def test_a_hook_that_hangs_is_told_once_and_delays_nothing() -> None:
    clock = MemoryClock()
    with hanging(clock) as (calls, begun):
        calls.call("on_lease_taken", worker="w1", shard="a")
        assert begun.wait(SOON.total_seconds())
        assert calls.troubles() == (), "it may be slow"
        clock.advance(timedelta(seconds=31))
        told = [*calls.troubles(), *calls.troubles()]
        assert len(told) == 1
        assert "hook on_lease_taken: the hook has been at work for 31 s" in told[0]
        assert not calls.settle(timedelta(0)), "a run's end waits for a few seconds only"


def test_calls_that_wait_for_a_hanging_hook_are_bounded() -> None:
    clock = MemoryClock()
    with hanging(clock) as (calls, begun):
        calls.call("on_lease_taken", worker="w1", shard="a")
        assert begun.wait(SOON.total_seconds())
        for _ in range(MOST_WAITING + 5):
            calls.call("on_lease_taken", worker="w1", shard="b")
        assert len(calls.troubles()) == 1


def test_the_class_is_found_beside_the_settings_file_and_may_have_few_of_the_methods(tmp_path: Path) -> None:
    (tmp_path / "our_hooks.py").write_text(
        "from pathlib import Path\n"
        "class Hooks:\n"
        "    def on_tables_created(self, lease_table):\n"
        f"        Path({str(tmp_path / 'made')!r}).write_text(lease_table)\n"
    )
    text = "{application: shop, streams: [{name: orders}], hooks: 'our_hooks:Hooks'}"
    settings = parse_settings(text, {}, name="headrace.yaml", folder=tmp_path).settings
    hooks = hooks_of(settings, MemoryClock())
    assert isinstance(hooks, CalledHooks)
    hooks.calls.call("on_lease_taken", worker="w1", shard="a")
    hooks.calls.call("on_tables_created", lease_table="shop")
    assert hooks.calls.settle(SOON)
    assert hooks.calls.troubles() == ()
    assert (tmp_path / "made").read_text() == "shop"


def test_a_class_that_isnt_there_is_told_and_ends_no_tick(tmp_path: Path) -> None:
    text = "{application: shop, streams: [{name: orders}], hooks: 'no_such_hooks:Hooks'}"
    settings = parse_settings(text, {}, name="headrace.yaml", folder=tmp_path).settings
    hooks = hooks_of(settings, MemoryClock())
    assert isinstance(hooks, CalledHooks)
    for shard in "abc":
        hooks.calls.call("on_lease_taken", worker="w1", shard=shard)
    assert hooks.calls.settle(SOON)
    [trouble] = hooks.calls.troubles()
    assert "'no_such_hooks:Hooks', which can't be imported" in trouble


@pytest.mark.parametrize("broken", ["hooks: 'no colon'", "hooks: 'a:b:c'"])
def test_a_name_of_another_form_is_refused(broken: str, tmp_path: Path) -> None:
    text = f"{{application: shop, streams: [{{name: orders}}], {broken}}}"
    with pytest.raises(BadSetting, match=r"allowed: package\.module:Name"):
        parse_settings(text, {}, name="headrace.yaml", folder=tmp_path)


def test_without_hooks_nothing_is_called() -> None:
    world = World(shards=1)
    wiring = Wiring(replace(world.settings, hooks=None), _Ports(world))  # type: ignore[arg-type]
    cursors: dict[str, str | None] = {}
    assert not any("hook" in sentence for sentence in tick(world, wiring, cursors))
