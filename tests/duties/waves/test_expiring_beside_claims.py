"""Snapshots expire with no shard claimed. A run that keeps claims doesn't release them between two waves for that: each expiry would
cost a release and a claim for every kept row, and come as often as checkpoints do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.pipeline.core.leases.change_kind import ChangeKind
from headrace.pipeline.errors import Unreachable
from tests.duties.waves.test_expiring import HOUR, Place
from tests.duties.waves.test_kept_claims import Flowing


class Busy(Place):
    """A table of which more snapshots could go than are worth a commit, and a shard into which a record comes in each pause."""

    world: Flowing

    def __init__(self) -> None:
        super().__init__(world=Flowing())
        self.commits(60)
        self.claims_at_expiry: list[int] = []
        self.ledgers.before = self._note_claims

    def read(self, linger: float, *, is_stopping: Callable[[], bool] = lambda: False) -> None:
        """A run that reads all that is due for so long, while records come."""
        world = self.world
        world.settings = replace(
            world.settings, times=replace(world.settings.times, linger=timedelta(seconds=linger))
        )
        run = self.a_run("run")
        run.is_stopping = is_stopping

        def pause(seconds: float) -> None:
            world.clock.advance(timedelta(seconds=seconds))
            world.produce(0, 1)

        world.clock.pause = pause  # type: ignore[method-assign]
        world.produce(0, 1)
        world.leases.kinds.clear()
        run.all_that_is_due()

    def _note_claims(self) -> None:
        self.claims_at_expiry.append(
            sum(row.run_claim is not None for row in self.world.leases.scan().leases)
        )


@pytest.fixture
def busy() -> Busy:
    return Busy()


def test_a_run_that_keeps_claims_expires_snapshots_at_its_end_when_it_has_released_them(busy: Busy):
    busy.read(300)
    assert len(busy.reports) > 25
    kinds = Counter(busy.world.leases.kinds)
    assert kinds[ChangeKind.CLAIM] == 1
    assert kinds[ChangeKind.RELEASE] + kinds[ChangeKind.CHECKPOINT_AND_RELEASE] == 1
    # For the expiry, and at the end of the run.
    assert busy.claims_at_expiry == [0, 0]
    assert len(busy.heard) == 1
    assert "snapshots of the lake table expired" in busy.heard[0]


def test_a_run_of_hours_releases_its_claims_for_an_expiry_after_each_hundred_waves(busy: Busy):
    """Otherwise commits would get slower for as long as the run goes on."""
    busy.read(2 * HOUR.total_seconds())
    waves = len(busy.reports)
    assert waves > 600
    # At the end of the run the ledgers are recorded once more, and an expiry there needs 25 waves since the one before.
    assert waves // 100 < len(busy.claims_at_expiry) <= waves // 100 + 2
    assert not any(busy.claims_at_expiry)
    assert busy.known() < 100 + 25


def test_a_run_that_is_told_to_stop_leaves_the_expiry_to_the_next_run(busy: Busy):
    before, began = busy.known(), busy.world.clock.monotonic()
    busy.read(300, is_stopping=lambda: busy.world.clock.monotonic() - began > 60)
    assert busy.claims_at_expiry == []
    assert busy.known() == before + len(busy.reports)


def test_an_error_in_a_wave_is_not_followed_by_an_expiry(busy: Busy):
    def fails() -> bool:
        raise Unreachable("the worker's row can't be read")

    with pytest.raises(Unreachable):
        busy.read(300, is_stopping=fails)
    assert busy.claims_at_expiry == []
