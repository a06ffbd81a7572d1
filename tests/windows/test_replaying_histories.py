"""Two windows at once over a reshard and two lives of a stream, while other runs, cancellations, compaction, expiry and landings come between
any two steps of a wave. A seed is a whole history."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random

from headrace.pipeline.core.landing.landing import Proposal
from headrace.pipeline.core.ledger.arrivals import Window as Arrivals
from headrace.pipeline.core.ledger.ledger import Range
from headrace.pipeline.core.shards.position import TRIM, Origin
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import Transient, Unknown
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings
from headrace.pipeline.typed.values import WaveLimits
from headrace.pipeline.upkeep.compact import Compacting
from headrace.pipeline.upkeep.live_table import IcebergLive
from headrace.pipeline.windows.make import Numbers
from headrace.pipeline.windows.window import ReplayWindow, WindowRange, Word
from tests.lake.samples import NOON, STREAM, a_key
from tests.typed.parsings import A, B, Killed, good
from tests.upkeep.compactions import InProcess as InProcessRewriter
from tests.windows.windows import WindowBed

CHILD = a_key(2)
AGAIN = ShardKey(StreamId(STREAM.arn, STREAM.epoch + 1000), A.shard_id)
LIMITS = WaveLimits(6, 2**30)
Row = tuple[str, int, int, int]


class History:
    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = Random(seed)
        self.bed = WindowBed(folder)
        self.numbers = dict.fromkeys((A, B, CHILD, AGAIN), 100)
        for _ in range(3):
            self.land(A)
            self.land(B)
        self.land(A, ended=[CHILD.shard_id])
        self.land(CHILD, parents=[A.shard_id])
        self.bed.lake.handle().commit(Proposal(origins=((AGAIN.stream, Origin(TRIM, NOON)),)))
        self.land(AGAIN)
        self.land(CHILD)
        self.windows = (
            self.bed.window(Arrivals(NOON - timedelta(minutes=1), NOON + timedelta(hours=1))),
            self.bed.window(Numbers(A.shard_id, 102, 110)),
        )
        self.wanted = [self.rows_in(window) for window in self.windows]
        self.bed.clock.at += timedelta(hours=2)
        self.is_nested = False
        self.seen: set[str] = set()

    def land(
        self, key: ShardKey, *, ended: list[str] | None = None, parents: tuple[str, ...] | list[str] = ()
    ) -> None:
        first = self.numbers[key]
        self.numbers[key] += self.dice.randint(1, 5)
        rows = {number: good(number) for number in range(first, self.numbers[key])}
        self.bed.land(key, rows, ended=ended, parents=parents, subs=self.dice.randint(1, 2))

    def rows_in(self, window: ReplayWindow) -> list[Row]:
        ranges = {(each.key.shard_id, each.key.stream.epoch): each for each in window.ranges}
        return [row for row in self.bed.lake_rows() if (at := ranges.get(row[:2])) and _is_in(at, row)]

    def between(self, _arrow: str) -> None:
        if self.is_nested:
            return
        act = self.dice.choice([*self.acts(), None, None])
        if act is not None:
            self.is_nested = True
            try:
                act()
            finally:
                self.is_nested = False

    def acts(self) -> list[Callable[[], None]]:
        return [self.die, self.land_more, self.compact, self.expire, self.run_another, self.cancel]

    def die(self) -> None:
        raise Killed("at a step")

    def land_more(self) -> None:
        self.land(self.dice.choice([B, CHILD, AGAIN]))

    def compact(self) -> None:
        lake = self.bed.lake.handle()
        done = Compacting(
            table=IcebergLive(lake),
            rewriter=lambda: InProcessRewriter(lake),
            settings=UpkeepSettings(),
            clock=self.bed.clock,
        ).run()
        self.seen |= {"compacted"} if done.done else set()

    def expire(self) -> None:
        self.bed.lake.expire_all_but_the_head(forget=False)
        self.seen.add("expired")

    def run_another(self) -> None:
        self.wave(self.dice.choice(self.windows))

    def cancel(self) -> None:
        self.bed.windowing().say(self.dice.choice(self.windows).id, Word.CANCELLED)

    def wave(self, window: ReplayWindow) -> bool:
        """One wave. Returns whether nothing of the window was left."""
        try:
            wave = self.bed.replaying(window, limits=LIMITS, at=self.between).wave()
        except Killed:
            self.seen.add("killed")
        except Transient as refused:
            if "another run has copied" not in str(refused):
                raise
            self.seen.add("refused")
        except Unknown as cancelled:
            if "is cancelled" not in str(cancelled):
                raise
            self.seen.add("cancelled")
            self.bed.windowing().say(window.id, Word.RESUMED)
        else:
            return wave.snapshot is None
        return False

    def play(self) -> None:
        left = list(self.windows)
        for _ in range(200):
            if not left:
                return
            window = self.dice.choice(left)
            if self.wave(window):
                left.remove(window)
        raise AssertionError("the windows are never copied")

    def check(self) -> None:
        assert len(self.wanted[0]) > len(self.wanted[1]) > 0
        for window, wanted in zip(self.windows, self.wanted, strict=True):
            assert self.bed.copied(window) == wanted
            chains: dict[ShardKey, list[Range]] = {}
            for entry in read.ledger(self.bed.table_of(window)):
                for each in entry.page.ranges:
                    chains.setdefault(each.key, []).append(each)
            for chain in chains.values():
                assert [each.after for each in chain] == [None, *(each.upto for each in chain[:-1])]


def _is_in(at: WindowRange, row: Row) -> bool:
    """By numbers, where the code under test goes by texts."""
    low = (-1, 0) if at.after is None else (at.after.sequence or -1, at.after.sub)
    return low < row[2:] and row[2] <= (at.upto.sequence or -1)


def test_each_row_of_each_window_is_copied_once_in_every_history(tmp_path: Path):
    seen: set[str] = set()
    for seed in (1, 4):
        history = History(tmp_path / str(seed), seed)
        history.play()
        history.check()
        seen |= history.seen
    # Else these histories would show nothing.
    assert {"killed", "cancelled", "compacted", "expired"} <= seen
