"""Planted bugs of typed tables (I38): what is parsed, set aside and redriven."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug


def typed_fleet(**typed: Any) -> dict[str, Any]:
    """Fleets with two targets, whose runs often meet and often die."""
    often = {
        "targets": 2,
        "every": 10.0,
        "rows": 20,
        "begins": 0.0,
        "deploys": 60.0,
        "redrives": 30.0,
        "upkeep": 0.0,
        "cut": 0.1,
    }
    return {"retention": 86_400.0, "quiet": 0.0, "hosts_off": 0.0, "puts_every": 1.0, "typed": often | typed}


LIVES_LEFT_OUT: Final[dict[str, Any]] = {
    "hosts_off": 0.0,
    "midnight": 0.0,
    "adopted": False,
    "streams": 1,
    "discovered": False,
    "removed": False,
    "added": 0,
    "troubles": {"expire": 70.0, "recreate": 120.0},
}
"""A stream that is created again and again, and repairs of the lake table, which leave out its former lives."""

TYPED: Final = (
    a_bug(
        "set-aside-first",
        "the rows of the quarantine table are committed before the typed table's commit, and a killed run's successor decides anew",
        (
            "typed.lake_wave",
            "        # All or nothing: the files of the quarantine table have rows of several shards, too.\n",
            "        self.settling.quarantine.commit(Proposal(tuple(ranges), tuple(aside), basis.wishes.origins, whole=True))\n",
        ),
        among=typed_fleet(),
    ),
    a_bug(
        "only-the-newest-settled",
        "of two commits that the quarantine table lacks, only the newer one is carried out: the older one was a killed run's",
        (
            "typed.quarantine.settle_plan",
            "                before = _token(recorded.after)\n",
            "                before = ends[recorded.key]\n",
        ),
        ("typed.lake_wave", "        settled = self.settling.settle()\n", "        settled = 0\n"),
        among=typed_fleet(),
    ),
    a_bug(
        "newer-positions",
        "a wave goes up to positions of a later look than the files that it reads",
        (
            "typed.lake_wave",
            "        wishes = self.wishes(look.positions, target)\n",
            "        wishes = self.wishes(self.ports.source.look().positions, target)\n",
        ),
        # What is found is compared with the ledgers, and fewer rows are refused: the bug needs both mistakes.
        (
            "typed.lake_wave",
            "            if self.checking is None or not basis.plan.ranges:\n",
            "            if True:\n",
        ),
        among=typed_fleet(every=5.0),
    ),
    a_bug(
        "position-of-the-lake",
        "a wave that takes a part of a shard's rows moves the position as if it had taken all of them",
        (
            "typed.plan",
            "        upto = _upto(lack, own, may_end=may_end) if is_whole else _cut(own)\n",
            "        upto = _upto(lack, own, may_end=may_end)\n",
        ),
        among=typed_fleet(rows=5),
    ),
    a_bug(
        "came-and-went-unlooked-at",
        "a typed table that was made late never looks at files of shards that the lake table had dropped by then",
        (
            "typed.files.portion",
            "    return lack.upto is None or lack.is_new or shards[0]",
            "    return lack.upto is None or shards[0]",
        ),
        (
            "typed.files.portion",
            "            if part.name[:2] in self.streams and part.name not in self.closed:\n",
            "            if part.name is None:\n",
        ),
        among=typed_fleet(begins=900.0, deploys=0.0, redrives=0.0, cut=0.0)
        | {
            "retention": 120.0,
            "shards": 1,
            "fault_seconds": 900.0,
            "troubles": {"split": 100.0},
            "mix": {"forgotten": 0.05},
        },
    ),
    a_bug(
        "wrong-parser-unheeded",
        "a parser that fails everything sets everything aside, in spite of stop_above",
        (
            "typed.account",
            "    if judged < _LEAST_JUDGED or aside <= stop_above * judged:\n",
            "    if True:\n",
        ),
        among=typed_fleet(rows=1_000_000, begins=300.0, deploys=40.0),
    ),
    a_bug(
        "looked-into-is-done",
        "a file that was looked into counts as one that has nothing left, although rows of it wait, or come into a later wave",
        (
            "typed.files.looked",
            "        or (part.name in passed and part.last <= passed[part.name])\n",
            "        or True\n",
        ),
        among=typed_fleet() | {"troubles": {"split": 60.0, "merge": 60.0}},
    ),
    a_bug(
        "mended-and-kept",
        "rows that a redrive has mended stay in the quarantine table",
        (
            "typed.quarantine.settle",
            "        redriven = [unsettled for unsettled in plan if unsettled.taken]\n",
            "        redriven: list[Unsettled] = []\n",
        ),
        among=typed_fleet(),
    ),
    a_bug(
        "redriven-twice",
        "a redrive compares the count of redrives with that of the moment of its commit, and not with that of its look",
        (
            "typed.quarantine.redrive",
            "        planned = {planned_range.key: planned_range for planned_range in plan.wave.ranges}\n",
            (
                "        planned = {planned_range.key: planned_range for planned_range in plan.wave.ranges}\n"
                "        positions = self.redriving.ports.table.load().positions\n"
            ),
        ),
        among=typed_fleet(redrives=6.0),
    ),
    a_bug(
        "refused-and-removed",
        "a refused commit of the quarantine table is made all the same where it has an origin, and removes rows that another one has added",
        (
            "core.landing.landing",
            "        return Landing(LedgerPage(), (), tuple(refused.values()), base, stated)\n",
            "",
        ),
        among=typed_fleet(redrives=6.0, every=5.0) | {"hosts": 4, "troubles": {"recreate": 60.0}},
    ),
    a_bug(
        "behind-a-table-at-rest",
        "records that land behind a typed table's position after a repair are passed unseen where the shard doesn't move",
        (
            "typed.lake_wave",
            "        behind = self._landed_behind(look, target, pages)\n",
            "        behind = BehindPositions()\n",
        ),
        among=typed_fleet(every=5.0, redrives=0.0, cut=0.0, deploys=0.0)
        | {
            "streams": 1,
            "added": 0,
            "removed": False,
            "discovered": False,
            "of_a_table": False,
            "hosts_off": 0.0,
            "midnight": 0.0,
            "adopted": False,
            "aggregates": False,
            "keeps": 0.0,
            "shards": 2,
            "fault_seconds": 240.0,
            "traffic_ends_early": 200.0,
            "troubles": {"expire": 100.0, "skip": 15.0},
        },
    ),
)
