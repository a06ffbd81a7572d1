"""Streams that a function of the user's own lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.hooks.tracker import StreamTracker
from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
from headrace.pipeline.settings.blocks.parse import Written
from headrace.pipeline.settings.choices import InitialPosition, StreamsMode
from headrace.pipeline.settings.model import Settings, StreamSettings
from tests.duties.world import World

LET_GO = Event()
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def tracking(folder: Path, body: str) -> StreamTracker:
    (folder / "our_streams.py").write_text(
        f"from datetime import datetime, UTC\ndef streams():\n    {body}\n"
    )
    settings = Settings(
        application="app",
        streams_mode=StreamsMode.MULTI,
        discovery=DiscoverySettings(tracker="our_streams:streams", initial_position=InitialPosition.LATEST),
        written=Written(str(folder)),
    )
    return StreamTracker(settings)


def test_names_start_as_the_discovery_says_and_mappings_where_they_say(tmp_path: Path) -> None:
    asked = tracking(
        tmp_path,
        "return ['a', {'name': 'a2', 'timestamp': None}, {'name': 'b', 'initial_position': 'TRIM_HORIZON'}, {'name': 'c', 'initial_position': "
        "'AT_TIMESTAMP', 'timestamp': datetime(2026, 1, 31, 12, tzinfo=UTC)}]",
    )
    assert [(stream.name, stream.initial_position, stream.timestamp) for stream in asked.streams()] == [
        ("a", InitialPosition.LATEST, None),
        ("a2", InitialPosition.LATEST, None),
        ("b", InitialPosition.TRIM_HORIZON, None),
        ("c", InitialPosition.AT_TIMESTAMP, NOON),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "return [7]",
        "return [{'initial_position': 'LATEST'}]",
        "return [{'name': 'a', 'start': 'LATEST'}]",
        "return [{'name': 'a', 'initial_position': 'NEWEST'}]",
        "return [{'name': 'a', 'initial_position': 'AT_TIMESTAMP'}]",
        "return [{'name': 'a', 'initial_position': 'AT_TIMESTAMP', 'timestamp': datetime(2026, 1, 31)}]",
        "return [{'name': 'a', 'initial_position': 'LATEST', 'timestamp': datetime(2026, 1, 31, tzinfo=UTC)}]",
        "return [{'name': 'a', 'timestamp': datetime(2026, 1, 31, tzinfo=UTC)}]",
        "return 'orders'",
        "return b'orders'",
        "return {'name': 'orders'}",
        "return {'orders': 'LATEST'}",
        "raise ValueError('no list today')",
        "return None",
    ],
)
def test_another_answer_is_refused_with_the_name_of_the_setting(body: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"discovery.tracker \(our_streams:streams\)"):
        tracking(tmp_path, body).streams()


def test_a_function_that_hangs_costs_one_tick_its_patience_and_later_ticks_nothing(tmp_path: Path) -> None:
    body = "import tests.hooks.test_tracker as test; test.LET_GO.wait(20); return []"
    tracker = replace(tracking(tmp_path, body), patience=timedelta(milliseconds=50))
    try:
        with pytest.raises(Unreachable, match="didn't answer within"):
            tracker.streams()
        with pytest.raises(Unreachable, match="still doesn't answer"):
            tracker.streams()
    finally:
        LET_GO.set()


# -- in the leader's ticks -----------------------------------------------------------------------------------------


def listing(world: World, answer: Callable[[], tuple[StreamSettings, ...]]) -> None:
    world.settings = replace(
        world.settings,
        streams_mode=StreamsMode.MULTI,
        discovery=DiscoverySettings(tracker="our_streams:streams"),
    )
    make = world.a_leader
    world.a_leader = lambda *asked: replace(make(*asked), tracker=answer)  # type: ignore[method-assign]


def a_stream(name: str, **how: Any) -> StreamSettings:
    return StreamSettings(name=name, **how)


def test_the_leader_keeps_rows_for_the_listed_streams_from_where_the_function_says() -> None:
    world = World(shards=1)
    for name in ("told", "latest", "untold"):
        world.source.create_stream(name, 1)
    old = world.source.describe("latest").asked
    listing(
        world,
        lambda: (a_stream("told"), a_stream("latest", initial_position=InitialPosition.LATEST)),
    )
    said = str(world.lead())
    assert "streams found: latest, told" in said
    names = {(row.stream or "").split(":")[1] for row in world.leases.scan().leases}
    assert names == {"orders", "told", "latest"}
    starts = {stream.name: origin.start.at for stream, origin in world.table.load().positions.origins.items()}
    assert starts["told"] is None
    assert (at := starts["latest"]) is not None
    assert at >= old


def test_a_function_that_fails_changes_nothing_and_is_told() -> None:
    world = World(shards=1)
    world.source.create_stream("told", 1)
    answers: list[Any] = [(a_stream("told"),)]

    def answer() -> tuple[StreamSettings, ...]:
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]  # type: ignore[no-any-return]

    listing(world, answer)
    world.lead()
    answers[0] = BadSetting("no list today")
    world.clock.advance(timedelta(minutes=2))
    said = str(world.lead())
    assert "the search for streams failed (no list today)" in said
    assert "former stream" not in said
    answers[0] = ()
    world.clock.advance(timedelta(minutes=2))
    assert "former stream told is read on" in str(world.lead())
