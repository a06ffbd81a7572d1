"""What a wave of a processor wants once a shard has stopped in this process, on values."""

from typing import Any

from headrace.pipeline.core.shards.position import TRIM, Origin, Position, Positions
from headrace.pipeline.processors.wave import Processing
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.values import WaveLimits
from tests.lake.samples import NOON, STREAM, StandingClock, a_key

A, B = a_key(0), a_key(1)
ORIGINS = {STREAM: Origin(TRIM, NOON)}
UNUSED: Any = None


def test_a_stopped_shard_is_neither_wanted_nor_looked_for_among_shards_that_nobody_knows():
    processing = Processing(
        settings=ProcessorSettings(
            name="words", table="lake.words", callable="words:Words", schema="word STRING"
        ),
        ports=UNUSED,
        settling=UNUSED,
        limits=WaveLimits(1_000, 2**20),
        clock=StandingClock(),
        run="run",
        stopped={A: "the processor raised"},
    )
    lake = Positions(ORIGINS, {A: Position(9), B: Position(9)})
    wishes = processing.wishes(lake, Positions(ORIGINS, {A: Position(5)}))
    assert [lack.key for lack in wishes.wanted] == [B]
    # Rows of shards that aren't closed are taken from their first one on: those of a stopped shard were processed.
    assert A in wishes.closed
    # Shards whose parents nothing tells wait, where its children may be among them.
    assert [lack.key for lack in wishes.stopped] == [A]
