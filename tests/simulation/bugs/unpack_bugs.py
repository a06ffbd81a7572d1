"""Planted bugs of windows that take aggregates apart in the lake table (I39), and of windows that read from the stream (I1)."""

from __future__ import annotations

from typing import Any, Final

from tests.simulation.bugs.planted import a_bug
from tests.simulation.bugs.typed_bugs import typed_fleet


def _fleet(**typed: Any) -> dict[str, Any]:
    """Fleets that land aggregates whole at first. Their windows often meet each other, compactions, and runs that die."""
    often = {"targets": 1, "cut": 0.05, "windows": 0.0, "copies": 0.0, "reads": 0.0, "unpacks": 10.0}
    kept = {"adopted": False, "aggregates": True, "keeps": 200.0}
    return kept | typed_fleet(**often | typed)


_FROM_THE_STREAM: Final = typed_fleet(targets=1, windows=0.0, copies=0.0, unpacks=0.0, reads=15.0) | {
    "adopted": False,
    "position": "LATEST",
    "opens": 60.0,
}
"""Fleets that begin to read late, so that the lake table lacks the first records of most shards."""
_AFTER_SKIPS: Final = typed_fleet(targets=1, windows=0.0, copies=0.0, unpacks=0.0, reads=15.0) | {
    "troubles": {"skip": 20.0},
}
"""Fleets in which a person often gives up records, so that the lake table lacks records between others."""
_SEEDS = 40

UNPACKINGS: Final = (
    a_bug(
        "unpacked-unseen",
        "files with aggregates are replaced without a look whether they are still in the table",
        (
            "tests.memory.table",
            "            if proposal.gone and not {*proposal.gone} <= {f.path for f in self.files_at(base.snapshot)}:\n",
            "            if False:\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "unpacked-again",
        "aggregates that were inside of aggregates are taken apart by the next window: the ledgers of the first unpacking aren't heeded",
        (
            "windows.unpack_plan",
            "    return tuple(_joined(sorted(unpacked, key=lambda span: span.low)))\n",
            "    return ()\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "landed-apart-and-unpacked",
        "a user record that landed by itself is taken apart, because its payload is an aggregate",
        (
            "windows.unpack_plan",
            "    return step.range.rows > 0 and not step.range.unpacked\n",
            "    return step.range.rows > 0\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "ledgers-before-the-look",
        "the ledgers are read before the files are looked at, so that they don't tell of an unpacking between the two",
        (
            "windows.unpack",
            "        look = self.ports.source.look()\n        entries = tuple(self._entries(window))\n",
            "        entries = tuple(self._entries(window))\n        look = self.ports.source.look()\n",
        ),
        # So that seconds pass between the two now and then.
        among=_fleet() | {"mix": {"slow": 0.1}},
    ),
    a_bug(
        "unfit-for-unpacking-dropped",
        "a record that can't be taken apart is dropped, and the account isn't compared",
        (
            "tests.memory.unpack",
            "                made = (row,) if bound is None else row.taken_apart()\n",
            "                made = (row,) if bound is None else row.taken_apart() if row.users else ()\n",
        ),
        ("windows.unpack_plan", "    if taken != expected or any(", "    if False and any("),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "others-of-the-file-dropped",
        "rows beside the aggregates don't come back, and what was written isn't compared with what was counted",
        (
            "tests.memory.unpack",
            "                rows += made\n",
            "                rows += () if bound is None else made\n",
        ),
        (
            "windows.unpack_plan",
            "    if written != sum(count.rows_told for count in rewritten.counts):\n",
            "    if False:\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "unpacked-without-landings",
        "the ledger has one range for all landings of a wave whose aggregates it takes apart",
        (
            "windows.unpack_plan",
            "        candidates = [(_common(_kept(step), wave), step.range) for step in steps]\n",
            "        candidates = [(wave, step.range) for step in steps if _common(_kept(step), wave)][:1]\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "unpacking-moves-the-position",
        "a commit that takes aggregates apart sets the position of the shard to the end of its range",
        (
            "core.landing.landing",
            "for r in landed if r.moves}",
            "for r in landed if r.moves or r.kind is Kind.UNPACKED}",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "unpacked-in-part",
        "a window counts as done after its first wave",
        (
            "windows.unpack",
            "        done = Wave(Does.UNPACK, rows.rows, landed, is_last=rows.is_last)\n",
            "        done = Wave(Does.UNPACK, rows.rows, landed, is_last=True)\n",
        ),
        seeds=_SEEDS,
        among=_fleet(rows=5),
    ),
    a_bug(
        "rolled-back-and-done",
        "a run goes on after aggregates that were taken apart, though a person has rolled that back since, and counts the window as done",
        (
            "windows.unpack",
            "        if is_on_main and self.rests_on <= {entry.snapshot for entry in entries}:\n",
            "        if True:\n",
        ),
        seeds=120,
        among=_fleet(rows=5) | {"hosts": 3, "troubles": {"roll_back": 13.0}, "traffic_ends_early": None},
    ),
    a_bug(
        "not-followed-unnamed",
        "nothing tells that typed tables still have whole aggregates",
        (
            "windows.unpack",
            "        for name, table in self.ports.typed.items():\n",
            "        for name, table in ():\n",
        ),
        seeds=_SEEDS,
        among=_fleet(),
    ),
    a_bug(
        "read-past-the-window",
        "a window reads on from the stream after the end of what the lake table lacks",
        ("windows.read_stream", "        until=stretch.upto,\n", "        until=None,\n"),
        seeds=_SEEDS,
        among=_FROM_THE_STREAM,
    ),
    a_bug(
        "copied-over-what-is-lacking",
        "a window's rows are copied as if the lake table had all of them, and nothing between them is read from the stream",
        (
            "windows.copy_plan",
            "    upto = planned.upto if stretch is None or stretch.after is None else stretch.after\n",
            "    upto = planned.upto\n",
        ),
        seeds=_SEEDS,
        among=_AFTER_SKIPS,
    ),
)
