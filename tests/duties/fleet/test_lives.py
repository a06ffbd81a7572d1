"""Random lives of a stream with the real duties: reshards, late listings, lost rows, clean-ups, lost commits, and
runs that come too late. No record lands twice, and each record that doesn't land is in a reported gap."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random

from headrace.pipeline.core.ledger.ledger import Kind
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.duties.fleet.cleanup import Cleaning, CleanupDue
from headrace.pipeline.errors import CommitUnknown
from headrace.pipeline.settings.choices import OnDataLoss
from tests.duties.life import DAY, STREAM, Life
from tests.memory.table import LostOnTheWay, Way

SEEDS = 120
_SECOND = timedelta(seconds=1)
"""Kinesis gives its time in whole seconds."""


class RandomLife:
    """A life whose events are drawn from a seed, and the arrivals of its records."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(f"life-{seed}")
        self.life = Life(shards=1 + self.dice.randrange(3), on_data_loss=OnDataLoss.CONTINUE)
        self.arrivals: dict[tuple[ShardKey, int], datetime] = {}
        self.life.table.fault = self._fault
        self.faulty = False

    def _fault(self, _way: Way) -> None:
        if self.faulty and self.dice.random() < 0.08:
            raise LostOnTheWay

    @property
    def shards(self) -> list[int]:
        found = self.life.source._streams["orders"]
        return [int(name[-4:]) for name, shard in found.shards.items() if not shard.closed]

    def step(self) -> None:
        life, dice = self.life, self.dice
        act = dice.random()
        if act < 0.2:
            self._put()
        elif act < 0.26 and len(life.source._streams["orders"].shards) < 14:
            self._reshard()
        elif act < 0.45:
            hidden = {f"shardId-{n:012d}" for n in range(14) if dice.random() < 0.1}
            life.source.hidden = frozenset(hidden)
            life.sync()
        elif act < 0.75:
            with suppress(CommitUnknown):
                life.wave()
        elif act < 0.8:
            self._clean()
        elif act < 0.84:
            rows = sorted(row.shard_id for row in life.leases.scan().leases)
            if rows:
                life.leases.wipe(dice.choice(rows))
        else:
            life.later(timedelta(hours=dice.choice([0.01, 0.5, 2, 5, 9])))

    def _put(self) -> None:
        life = self.life
        for _ in range(1 + self.dice.randrange(3)):
            life.produce(self.dice.choice(self.shards), 1)
            self.arrivals[life.put[-1]] = life.clock.now()

    def _reshard(self) -> None:
        life, its = self.life, self.shards
        number = self.dice.choice(its)
        whole = life.source._streams["orders"].shards
        its_range = whole[life.key(number).shard_id].hash_range
        assert its_range is not None
        for other in its:
            theirs = whole[life.key(other).shard_id].hash_range
            assert theirs is not None
            if self.dice.random() < 0.5 and theirs.start == its_range.end + 1:
                life.source.merge(life.key(number), life.key(other))
                return
        life.source.split(life.key(number))

    def _clean(self) -> None:
        life = self.life
        cleaning = Cleaning(settings=life.settings, leases=life.leases, source=life.source, table=life.table)
        due = CleanupDue(completed=True, garbage=self.dice.random() < 0.5)
        with suppress(CommitUnknown):
            cleaning.clean(
                due, life.source.describe(STREAM), listing=life.leases.scan(), state=life.table.load()
            )

    def settle(self) -> None:
        self.faulty = False
        self.life.source.hidden = frozenset()
        for _ in range(40):
            made = self.life.sync()
            report = self.life.wave()
            if not made and not report.goes_on and not report.rows and not report.notes:
                assert [p.why for p in report.problems] == []
                return
        raise AssertionError("syncs and waves still change something after 40 rounds")

    def is_reported(self, record: tuple[ShardKey, int]) -> bool:
        """Whether the record lies in a gap of its shard, or of a descendant of its shard."""
        key, arrival = record[0], self.arrivals[record]
        for gap in self.life.ledger(Kind.SKIPPED):
            assert gap.first_arrival is not None
            assert gap.last_arrival is not None
            within = gap.first_arrival - _SECOND <= arrival <= gap.last_arrival + _SECOND
            if within and (gap.key == key or key.shard_id in self._ancestors(gap.key.shard_id)):
                return True
        return False

    def _ancestors(self, shard_id: str) -> set[str]:
        shards = self.life.source._streams["orders"].shards
        found: set[str] = set()
        todo = [shard_id]
        while todo:
            above = set(shards[todo.pop()].parents) - found
            found |= above
            todo += above
        return found


def test_no_record_lands_twice_and_each_record_that_doesnt_land_is_in_a_reported_gap() -> None:
    lost_in_all = landed_in_all = 0
    for seed in range(SEEDS):
        world = RandomLife(seed)
        world.life.sync()
        world.faulty = True
        for _ in range(70):
            world.step()
        world.settle()
        landed = world.life.landed()
        assert [row for row, n in Counter(landed).items() if n > 1] == [], f"seed {seed}"
        assert set(landed) <= set(world.life.put)
        lost = [record for record in world.life.put if record not in set(landed)]
        assert [record for record in lost if not world.is_reported(record)] == [], f"seed {seed}"
        horizon = world.life.clock.now() - DAY + _SECOND
        assert all(world.arrivals[record] < horizon for record in lost), (
            f"seed {seed}: a record that Kinesis still has didn't land"
        )
        lost_in_all += len(lost)
        landed_in_all += len(landed)
    assert lost_in_all > SEEDS / 4
    assert landed_in_all > 10 * SEEDS
