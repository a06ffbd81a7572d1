"""A look finds records that nobody reads, also in a shard that counts as read to its tip."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from headrace.pipeline.checking.judge import verdicts
from headrace.pipeline.checking.lag import longest_lag
from headrace.pipeline.checking.look import CheckLook
from headrace.pipeline.checking.looking import CheckLooking, CheckPorts
from headrace.pipeline.checking.verdict import Verdict
from headrace.pipeline.core.ledger.filter import ALL_RANGES, RangeFilter
from headrace.pipeline.core.ledger.ledger import LedgerEntry, LedgerPage, Lost
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.ports.described_table import TableDescription
from headrace.pipeline.settings.blocks.parse import ParseSettings
from tests.duties.world import World
from tests.lake.samples import NOON, a_key, a_range
from tests.memory.lineage import MemoryLineage

MINUTE = timedelta(minutes=1)
_TICK = timedelta(seconds=30)
"""More ticks in a minute would only make these tests slow."""


@dataclass
class Watched:
    world: World
    looking: CheckLooking

    def look(self) -> CheckLook:
        world = self.world
        return self.looking.look(
            CheckPorts(
                leases=world.leases,
                workers=world.rows,
                table=world.table,
                lineage=world.lineage,
                source=world.source,
                facts=lambda name: TableDescription(name=name, location="memory"),
                is_behind=lambda _: False,
            )
        )

    def lag(self) -> timedelta:
        lag = longest_lag(self.look())
        assert lag.known is not None
        assert not lag.unknown
        return lag.known

    def verdict(self) -> Verdict:
        """Of the check `lag`."""
        settings = self.world.settings
        found = verdicts(self.look(), settings.dagster.checks, settings.upkeep, {})
        return next(verdict for verdict in found if verdict.check == "lag")

    def rest(self, duration: timedelta) -> None:
        """Time passes, and the worker goes on to beat."""
        for _ in range(duration // _TICK):
            self.world.clock.advance(_TICK)
            self.world.work()


@pytest.fixture
def watched() -> Watched:
    world = World()
    world.settle()
    world.produce(0)
    world.wave(run="first")
    # The second wave finds the shards at their tips.
    world.wave(run="second")
    return Watched(world, CheckLooking(world.settings, world.clock))


def test_a_lake_table_that_is_gone_fails_a_check_and_one_that_isnt_made_yet_doesnt(watched: Watched):
    def no_gaps(of: Watched) -> Verdict:
        settings = of.world.settings
        return verdicts(of.look(), settings.dagster.checks, settings.upkeep, {})[0]

    assert no_gaps(watched).holds
    watched.world.table.drop()
    assert not no_gaps(watched).holds
    assert "show that Headrace has worked for this application" in no_gaps(watched).sentence
    before = World()
    assert no_gaps(Watched(before, CheckLooking(before.settings, before.clock))).holds


def test_what_a_lake_table_that_is_gone_cant_show_is_not_known(watched: Watched):
    """Judged by no rows at all, each of these checks would hold."""
    settings = watched.world.settings
    watched.world.table.drop()
    found = verdicts(watched.look(), settings.dagster.checks, settings.upkeep, {})
    unknown = {verdict.check for verdict in found if verdict.sentence.startswith("not known: ")}
    assert unknown == {"no_duplicates", "parents_before_children", "watermark_age", "upkeep", "recorded"}
    assert not [verdict for verdict in found if verdict.check in unknown and verdict.holds]


def test_a_typed_table_isnt_said_to_keep_up_with_a_lake_table_that_is_gone(watched: Watched):
    settings = replace(
        watched.world.settings, parse=(ParseSettings(name="sold", table="lake.sold", schema="id BIGINT"),)
    )
    watched.world.table.drop()
    of_target = Watched(watched.world, CheckLooking(settings, watched.world.clock))
    found = verdicts(of_target.look(), settings.dagster.checks, settings.upkeep, {})
    told = {verdict.check: verdict.holds for verdict in found}
    assert (told["keeps_up"], told["quarantine_rate"]) == (False, False)


def test_no_shard_is_said_to_be_safe_while_kinesis_doesnt_tell_how_long_it_keeps_records(watched: Watched):
    def at_risk() -> Verdict:
        settings = watched.world.settings
        found = verdicts(watched.look(), settings.dagster.checks, settings.upkeep, {})
        return next(verdict for verdict in found if verdict.check == "retention_at_risk")

    watched.world.source.fails = Unreachable("Kinesis: no answer")
    unknown = at_risk()
    assert (unknown.holds, unknown.is_grave) == (False, False)
    assert (
        unknown.sentence
        == "not known, because Kinesis didn't tell how long it keeps records: Kinesis: no answer"
    )
    watched.world.source.fails = None
    assert at_risk().holds, "Kinesis is asked again at the next look"
    watched.world.source.fails = Unreachable("Kinesis: no answer")
    watched.world.clock.advance(5 * MINUTE)
    assert at_risk().holds, "the retention is known from before"


def test_a_shard_at_rest_has_no_lag_however_long_it_rests(watched: Watched):
    for _ in range(3):
        watched.rest(5 * MINUTE)
        assert watched.lag() == timedelta(0)


def test_a_shard_at_rest_lags_since_it_was_read_once_its_worker_is_dead(watched: Watched):
    watched.rest(5 * MINUTE)
    assert watched.lag() == timedelta(0)
    watched.world.clock.advance(5 * MINUTE)
    assert watched.lag() >= 10 * MINUTE, "nobody has looked for what came in ten minutes"
    watched.rest(MINUTE)
    assert watched.verdict().sentence == "the lag of 2 shards isn't known", "its worker is back only just now"
    watched.rest(MINUTE)
    assert watched.lag() == timedelta(0), "a worker that beats again looks into its shards"


def test_the_first_look_after_an_outage_tells_no_lag_as_long_as_the_outage(watched: Watched):
    """The sensors of the workers begin together with that of the watch."""
    watched.world.clock.advance(3 * 60 * MINUTE)
    watched.looking = CheckLooking(watched.world.settings, watched.world.clock)
    first = longest_lag(watched.look())
    assert (first.known, first.unknown > 0) == (None, True)
    # Nobody has come back.
    watched.world.clock.advance(2 * MINUTE)
    assert watched.lag() >= 182 * MINUTE


def test_a_record_that_nobody_reads_makes_a_lag_since_it_was_first_seen(watched: Watched):
    watched.rest(180 * MINUTE)
    watched.world.produce(0)
    assert watched.lag() == timedelta(0), "it came just now"
    watched.rest(4 * MINUTE)
    assert watched.lag() == 4 * MINUTE
    watched.rest(8 * MINUTE)
    assert watched.lag() == 12 * MINUTE


def test_a_record_that_came_after_a_look_is_seen_by_the_look_a_minute_later(watched: Watched):
    watched.rest(180 * MINUTE)
    assert watched.lag() == timedelta(0)
    watched.world.produce(0)
    watched.rest(MINUTE)
    assert watched.look().waiting
    watched.rest(4 * MINUTE)
    assert watched.lag() == 4 * MINUTE


def test_the_lag_is_gone_once_the_shard_is_read(watched: Watched):
    watched.rest(180 * MINUTE)
    watched.world.produce(0)
    watched.look()
    watched.rest(20 * MINUTE)
    watched.world.wave(run="third")
    watched.world.wave(run="fourth")
    watched.world.produce(0)
    assert watched.lag() == timedelta(0), "another record, which came just now"


def test_shards_that_nobody_reads_have_an_unknown_lag_which_becomes_a_late_one():
    world = World()
    world.settle()
    new = Watched(world, CheckLooking(world.settings, world.clock))
    first = new.verdict()
    assert (first.holds, first.sentence) == (True, "the lag of 2 shards isn't known")
    new.rest(9 * MINUTE)
    assert new.verdict().holds
    new.rest(2 * MINUTE)
    late = new.verdict()
    assert (late.holds, [offender.what for offender in late.offenders]) == (
        False,
        ["the shard was never read, for 11 min or more"] * 2,
    )
    world.wave(run="first")
    world.wave(run="second")
    assert new.verdict().sentence == "no shard is behind"


def test_the_ledgers_of_each_look_go_on_from_those_of_the_last_one(watched: Watched):
    assert watched.look().chains.breaks == ()
    watched.world.produce(0)
    watched.world.wave(run="third")
    chains = watched.look().chains
    assert (chains.breaks, chains.overlaps, chains.skips) == ((), (), ())


class Ledgers(MemoryLineage):
    """The ledgers that a test states, as those of main."""

    told: tuple[LedgerEntry, ...] = ()

    def entries(self, asked: RangeFilter = ALL_RANGES) -> Iterator[LedgerEntry | Lost]:
        return (entry for entry in self.told if asked.of(entry) is not None)


def ledger(sequence: int, after: int | None, upto: int) -> LedgerEntry:
    return LedgerEntry(sequence, sequence, NOON, LedgerPage((a_range(a_key(0), after, upto),)))


def test_what_a_rollback_took_off_main_is_no_duplicate_when_it_lands_again(watched: Watched):
    lineage = watched.world.lineage = Ledgers(watched.world.table)
    lineage.told = (ledger(1, None, 10), ledger(2, 10, 20))
    watched.look()
    lineage.told = (ledger(1, None, 10), ledger(3, 10, 20))
    assert watched.look().chains.overlaps == ()
    lineage.told = (*lineage.told, ledger(4, 10, 20))
    assert len(watched.look().chains.overlaps) == 1
    assert len(watched.look().chains.overlaps) == 1, "it stays until the history is another one"
