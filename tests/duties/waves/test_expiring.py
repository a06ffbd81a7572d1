"""Snapshots expire between two waves, or in the leader's tick where no run works; and nothing else waits or fails for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.landing.expiry_plan import History, Shape
from headrace.pipeline.core.leases.change import Applied, Change, Refused
from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.duties.waves.expire import Expiring
from headrace.pipeline.duties.waves.report import WaveReport
from headrace.pipeline.duties.waves.run import Run
from headrace.pipeline.errors import Unreachable
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from tests.duties.reading import an_attempt
from tests.duties.scripted_waves import MORE, NOTHING, Scripted
from tests.duties.world import TICK, World
from tests.lake.tables import patch
from tests.memory.lineage import MemoryLineage
from tests.memory.table import MemoryTable, Way

HOUR = timedelta(hours=1)
FEW = UpkeepSettings(keep_snapshots=10, keep_for=timedelta(minutes=1))


class Ledgers(MemoryLineage):
    """Counts the recordings, and calls `before` before each of them."""

    def __init__(self, table: MemoryTable) -> None:
        super().__init__(table)
        self.before: Callable[[], object] = lambda: None
        self.is_stuck = False
        self.calls = 0

    def record(self, *, at_most: timedelta | None = None) -> Recorded:
        self.calls += 1
        self.before()
        return self.recorded() if self.is_stuck else super().record(at_most=at_most)


@dataclass
class Place:
    """A world whose lake table has many snapshots."""

    world: World = field(default_factory=World)
    heard: list[str] = field(default_factory=list)
    reports: list[WaveReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.settle()
        self.ledgers = Ledgers(self.world.table)
        MemoryLineage.record(self.ledgers)  # as after the first landing of all
        self.expiring = self.an_expiring(FEW)

    def an_expiring(self, settings: UpkeepSettings) -> Expiring:
        return Expiring(
            table=self.world.table,
            lineage=lambda: self.ledgers,
            settings=settings,
            clock=self.world.clock,
        )

    def commits(self, count: int) -> None:
        for _ in range(count):
            self.world.table.carry()
        self.world.clock.advance(2 * HOUR)

    def known(self) -> int:
        return len(self.world.table.retained().snapshots)

    def wave(self, run: str = "run") -> None:
        """A run with one wave that lands a record."""
        self.world.produce(0, 1)
        self.a_run(run).catch_up((self.world.shard(0).shard_id,))

    def a_run(self, run: str) -> Run:
        self.attempt = an_attempt(self.world, run)
        self.world.runs.launch(run, "w1")
        self.world.runs.start(run)
        return Run(
            attempt=self.attempt,
            settings=self.world.settings,
            clock=self.world.clock,
            on_wave=self.reports.append,
            is_stopping=lambda: False,
            expiring=self.expiring,
            tell=self.heard.append,
        )


@pytest.fixture
def place() -> Place:
    return Place()


# --- recording without an expiry --------------------------------------------------------------------------------


def test_the_first_landing_of_all_is_recorded_before_the_next_wave(place: Place):
    """A reader finds the lineage table on the first day."""
    place.ledgers = Ledgers(place.world.table)
    place.wave()
    assert place.ledgers.recorded().snapshot == place.world.table.load().snapshot
    place.wave("second")
    assert (place.ledgers.calls, place.heard) == (1, [])


def test_a_sensors_run_records_at_its_end_what_it_has_landed(place: Place):
    place.world.produce(0, 3)
    place.a_run("run").all_that_is_due()
    assert place.ledgers.recorded().snapshot == place.world.table.load().snapshot
    assert (place.ledgers.calls, place.known() < 25) == (1, True)
    place.a_run("idle").all_that_is_due()
    assert place.ledgers.calls == 1


@pytest.mark.parametrize("error", [Unreachable("no answer"), ZeroDivisionError()])
def test_a_recording_that_fails_is_a_sentence_and_no_failure_of_the_run(place: Place, error: Exception):
    def fail() -> None:
        raise error

    place.ledgers.before = fail
    place.world.produce(0, 3)
    place.a_run("run").all_that_is_due()
    (said,) = place.heard
    assert said.startswith("the ledgers of the lake table couldn't be recorded now: ")
    assert place.reports[0].rows == 3


# --- between two waves ------------------------------------------------------------------------------------------


def test_after_a_wave_a_run_expires_the_snapshots_that_are_too_many(place: Place):
    place.commits(60)
    place.wave()
    assert place.heard == ["52 snapshots of the lake table expired"]
    assert place.known() == 10
    assert place.reports[0].rows == 1
    assert place.world.table.load().positions.of(place.world.shard(0)) is not None
    place.wave("second")
    assert place.reports[-1].rows == 1


def test_a_run_that_keeps_claims_releases_them_for_an_expiry_once_in_a_hundred_waves(place: Place):
    place.world.settings = replace(
        place.world.settings, times=replace(place.world.settings.times, linger=3 * HOUR)
    )
    attempt = Scripted(
        place.world, *[replace(MORE, shape=Shape(1_000))] * 250, replace(NOTHING, shape=Shape(1_000))
    )
    attempt.has_claims = True
    run = replace(place.a_run("run"), attempt=attempt)  # type: ignore[arg-type]
    run.all_that_is_due()
    waves = len(attempt.waves)
    assert waves > 250
    assert attempt.acts == [100, 200, waves]


def test_a_run_without_claims_expires_after_each_wave_that_shows_too_many_snapshots(place: Place):
    few, many = replace(MORE, shape=Shape(1)), replace(MORE, shape=Shape(1_000))
    attempt = Scripted(place.world, few, many, MORE, many, NOTHING)
    run = replace(place.a_run("run"), attempt=attempt)  # type: ignore[arg-type]
    run.all_that_is_due()
    assert attempt.acts == [2, 4]


def test_no_shard_is_claimed_and_the_wave_is_reported_while_snapshots_expire(place: Place):
    seen: list[tuple[int, int]] = []

    def look() -> None:
        claimed = [row for row in place.world.leases.scan().leases if row.run_claim]
        seen.append((len(claimed), len(place.reports)))

    place.ledgers.before = look
    place.commits(60)
    place.wave()
    assert seen == [(0, 1)]


def test_a_run_looks_at_nothing_while_the_snapshots_are_few(place: Place):
    place.commits(20)
    before = place.known()
    place.wave()
    assert (place.ledgers.calls, place.heard, place.known()) == (0, [], before + 1)


def test_where_everything_stays_the_next_plan_waits_for_25_more_snapshots(place: Place):
    place.expiring = place.an_expiring(replace(FEW, keep_for=9 * HOUR))
    place.commits(60)
    looks = looks_at(place.world.table)
    for run in ("first", "second"):
        place.wave(run)
    assert len(looks) == 1
    for _ in range(24):
        place.world.table.append_as_others()
    place.wave("third")
    assert len(looks) == 2
    assert (place.ledgers.calls, place.heard) == (0, [])


def looks_at(table: MemoryTable) -> list[int]:
    """One entry for each look at all snapshots from now on."""
    retained, looks = table.retained, list[int]()

    def counted() -> History:
        found = retained()
        looks.append(len(found.snapshots))
        return found

    patch(table, "retained", counted)
    return looks


def test_fewer_than_25_snapshots_are_not_worth_a_commit(place: Place):
    place.commits(20)
    place.expiring = place.an_expiring(replace(FEW, keep_snapshots=1))
    before = place.known()
    assert place.expiring.step(Shape(before)) is None
    assert place.known() == before


def test_an_expiry_that_is_switched_off_does_nothing(place: Place):
    place.expiring = place.an_expiring(replace(FEW, enabled=False))
    place.commits(60)
    before = place.known()
    place.wave()
    assert (place.ledgers.calls, place.known()) == (0, before + 1)


def test_snapshots_whose_ledgers_could_not_be_recorded_stay(place: Place):
    place.commits(40)
    up_to = place.ledgers.record().snapshot
    place.ledgers.is_stuck = True
    place.commits(40)
    place.wave()
    assert min(place.world.table.retained().snapshots) == up_to
    place.ledgers.is_stuck = False
    place.wave("second")
    assert place.ledgers.calls == 3


@pytest.mark.parametrize("trouble", [Unreachable("the catalog is away"), ValueError("secret payload")])
def test_a_failed_expiry_is_told_and_the_run_goes_on_without_trying_again_at_once(
    place: Place, trouble: Exception
):
    def fail() -> None:
        raise trouble

    place.ledgers.before = fail
    place.commits(60)
    for run in ("first", "second"):
        place.wave(run)
    assert [report.rows for report in place.reports] == [1, 1]
    (told,) = place.heard
    assert "couldn't be expired now" in told
    assert "the catalog is away" in told or "ValueError" in told
    assert "secret" not in told
    place.commits(25)
    place.ledgers.before = lambda: None
    place.wave("third")
    assert place.known() == 10


def test_one_step_takes_at_most_five_seconds_and_the_next_one_goes_on(place: Place):
    """The first expiry of a long history."""
    place.commits(3_500)
    place.world.table.fault = lambda _: place.world.clock.advance(timedelta(seconds=2))
    place.wave()
    place.wave("second")
    assert place.heard == [
        "2,000 snapshots of the lake table expired; 1,492 more at the next chance",
        "1,493 snapshots of the lake table expired",
    ]
    assert place.known() == 10


def test_an_expiry_that_others_are_always_faster_than_gives_up_for_now(place: Place):
    place.commits(60)
    before = place.known()

    def be_faster(way: Way) -> None:
        if way == "request":
            place.world.table.append_as_others()

    place.world.table.fault = be_faster
    assert (
        place.expiring.step(Shape(before))
        == "0 snapshots of the lake table expired; 56 more at the next chance"
    )
    assert place.known() == before + 5


def test_an_expiry_of_a_minute_does_not_make_the_run_or_its_next_wave_count_as_hung(place: Place):
    """I40."""
    beats: list[bool] = []

    def slow() -> None:
        for _ in range(6):
            place.world.clock.advance(timedelta(seconds=10))
            beats.append(place.attempt.beat())

    place.ledgers.before = slow
    place.commits(60)
    place.wave()
    assert beats == [True] * 6
    # The time that a wave or an expiry took isn't counted against what follows.
    run, clock, long = (
        an_attempt(place.world, "late"),
        place.world.clock,
        place.world.settings.hung_after * 1.5,
    )
    for _ in range(3):
        run.between_waves(lambda: clock.advance(long))
        run.wave()
        clock.advance(long)
    run.between_waves(lambda: beats.append(run.beat()))
    assert beats[-1]


def test_nothing_expires_while_a_row_has_the_claim_of_the_run_because_its_release_failed(place: Place):
    """I40: the shard of that row would wait for a slow catalog, and no other run may take it."""
    apply, place.attempt = place.world.leases.apply, an_attempt(place.world, "run")

    def fail_to_release(change: Change) -> Applied | Refused:
        if change.kind in {ChangeKind.RELEASE, ChangeKind.CHECKPOINT_AND_RELEASE}:
            raise Unreachable("no answer")
        return apply(change)

    patch(place.world.leases, "apply", fail_to_release)
    place.world.produce(0, 1)
    place.attempt.wave([place.world.shard(0).shard_id])
    assert place.attempt.between_waves(lambda: "expired") is None
    patch(place.world.leases, "apply", apply)
    assert place.attempt.between_waves(lambda: "expired") == "expired"
    assert [row.run_claim for row in place.world.leases.scan().leases] == [None, None]


def test_a_run_that_hangs_in_an_expiry_stops_its_beat(place: Place):
    beats: list[bool] = []

    def hang() -> None:
        place.world.clock.advance(place.world.settings.hung_after + TICK)
        beats.append(place.attempt.beat())

    place.ledgers.before = hang
    place.commits(60)
    place.wave()
    assert beats == [False]


# --- at rest ------------------------------------------------------------------------------------------------------


class Resting:
    """A world in which nothing lands any more. Another engine commits between the leader's ticks."""

    def __init__(self) -> None:
        self.place = Place()
        self.place.wave()
        self.world = self.place.world
        self.notes: list[str] = []

    def sync(self) -> str:
        """One tick of the leader with a shard sync."""
        self.world.clock.advance(self.world.settings.times.shard_sync)
        duty = replace(self.world.a_leader(), expiring=self.place.expiring)
        report = duty.tick(self.world.leader_memory["w1"])
        self.world.leader_memory["w1"] = report.memory
        return report.sentence


def test_the_leader_commits_the_positions_again_above_50_snapshots_of_other_engines():
    rest = Resting()
    before = rest.world.table.load().positions
    for _ in range(49):
        rest.world.table.append_as_others()
    assert "nothing to do" in rest.sync()
    rest.world.table.append_as_others()
    assert "positions committed once more, above 50 snapshots of other engines" in rest.sync()
    assert rest.world.table.load().positions == before
    assert rest.world.table.load().shape.foreign == 0
    assert "nothing to do" in rest.sync()


def test_a_leader_whose_table_is_out_of_reach_leads_all_the_same():
    rest = Resting()
    for _ in range(50):
        rest.world.table.append_as_others()

    def refuse(_: object) -> None:
        raise Unreachable("the storage is away")

    rest.world.table.fault = refuse
    sentence = rest.sync()
    assert "positions couldn't be committed once more (the storage is away)" in sentence


def test_a_table_without_an_origin_gets_no_commit():
    world = World()
    for _ in range(60):
        world.table.append_as_others()
    shape = world.table.load().shape
    assert (shape.foreign, shape.needs_carrying) == (60, True)
    world.lead()
    assert world.table.load().shape.foreign == 0  # the commit of the origin, and no other
    assert world.table.load().shape.snapshots == 61


def test_beside_another_engine_a_table_at_rest_stays_small_for_months():
    """One commit of the other engine each hour. The leader looks at the table as often as without it."""
    rest = Resting()
    before = rest.world.table.load().positions
    most_known = most_foreign = 0
    for _ in range(24 * 120):
        rest.world.table.append_as_others()
        rest.world.clock.advance(HOUR)
        rest.sync()
        shape = rest.world.table.load().shape
        most_known, most_foreign = max(most_known, shape.snapshots), max(most_foreign, shape.foreign)
    assert rest.world.table.load().positions == before
    assert most_foreign < 51
    assert most_known <= 50 + 10 + 4 * 25 + 1
    assert rest.place.ledgers.calls < 24 * 120 / 40
