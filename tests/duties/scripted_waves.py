"""An attempt whose waves return reports from a script, and reports to write such scripts with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from headrace.pipeline.core.ledger.batch import Staged
from headrace.pipeline.core.shards.position import Position
from headrace.pipeline.duties.waves.claims import Claims
from headrace.pipeline.duties.waves.report import Landed, Problem, WaveReport
from headrace.pipeline.errors import HeadraceError
from tests.duties.world import World

SECOND = timedelta(seconds=1)
_T = TypeVar("_T")


class Scripted:
    """An attempt whose waves return the reports of a script. Its claims and ports are real."""

    def __init__(self, world: World, *reports: WaveReport | HeadraceError) -> None:
        real = world.a_run("w1", "asked")
        self.claims: Claims = real.claims
        self.ask_for = real.ask_for
        self.ports = real.ports
        self.clock = world.clock
        self.failed: dict[str, str] = {}
        self.left_alone: frozenset[str] = frozenset()
        self.reports = list(reports)
        self.waves: list[tuple[float, tuple[str, ...] | None]] = []
        """When each wave began, and which shards it was asked to read."""
        self.takes = timedelta(0)
        self.kept = self
        self.has_claims = False
        self.must_look = False
        """Whether a pause is to look at the kept rows."""
        self.looks: list[float] = []
        """When the run looked at its kept rows in a pause."""
        self.ends = 0
        """How often the run released all rows."""
        self.acts: list[int] = []
        """After how many waves the run released all rows for something that takes long, such as an expiry."""
        self.lost_in_pauses: tuple[Problem, ...] = ()
        """What each look in a pause reports."""
        self.lost_at_the_end: tuple[Problem, ...] = ()

    def wave(self, keys: tuple[str, ...] | None = None) -> WaveReport:
        """The next report of the script; the last report is repeated."""
        self.waves.append((self.clock.monotonic(), keys))
        assert len(self.waves) < 2_000, "the run doesn't end"
        self.clock.advance(self.takes)
        report = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if isinstance(report, HeadraceError):
            raise report
        return report

    def look(self) -> tuple[Problem, ...]:
        self.must_look = False
        self.looks.append(self.clock.monotonic())
        return self.lost_in_pauses

    def let_go(self) -> tuple[Problem, ...]:
        self.ends += 1
        return self.lost_at_the_end

    def between_waves(self, act: Callable[[], _T]) -> _T | None:
        self.acts.append(len(self.waves))
        return act()

    def expected(self) -> tuple[str, ...]:
        return ("expected",)

    @property
    def began(self) -> list[float]:
        return [at for at, _ in self.waves]


def landed(shard: int = 0, **more: Any) -> Landed:
    world = World(shards=2)
    staged = Staged(world.shard(shard), None, Position(9), **{"behind": timedelta(0), "pages": 1, **more})
    return Landed(world.shard(shard).shard_id, staged, 1, (), ())


def waves_of(*each: Landed, problems: Sequence[Problem] = ()) -> WaveReport:
    """The report of a wave that landed these ranges."""
    return WaveReport(landed=tuple(each), problems=tuple(problems))


NOTHING = waves_of()
SOME = waves_of(landed(rows=3))
MORE = waves_of(landed(rows=3, behind=SECOND))
EMPTY_HANDED = waves_of(landed(behind=SECOND))
"""The shard isn't at its tip, but no record came: Kinesis answers with empty pages."""
