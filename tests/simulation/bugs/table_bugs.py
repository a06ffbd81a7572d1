"""Planted bugs in what becomes part of the lake table, and in what the table says of itself."""

from __future__ import annotations

from typing import Final

from tests.simulation.bugs.planted import a_bug

_CHECKPOINT_BEFORE_COMMIT: Final = """\
        for it in staged.manifest.staged:
            if it.upto.checkpoint is not None and not it.upto.ended:
                row, at = self.claims.held[it.key], it.upto.checkpoint
                early = change.checkpoint(row, self.claims.me, self.claims.claim, at=at)
                self.claims.write(staged.claimed.log, it.key, early)
"""

TABLE: Final = (
    a_bug(
        "news-taken-for-quiet",
        "the leader commits that a shard is quiet, although Kinesis has a record after the table's position",
        ("core.landing.valid_through", "for key in keys if key not in news}", "for key in keys}"),
        (
            "core.landing.valid_through",
            "BEHIND_OTHERS = timedelta(minutes=10)",
            "BEHIND_OTHERS = timedelta(seconds=5)",
        ),
        among={"retention": 86_400.0, "puts_every": 0.5},
    ),
    a_bug(
        "quiet-by-a-later-clock",
        "the leader commits that a shard was quiet at a time after it was asked",
        (
            "core.landing.valid_through",
            "replace(positions.shards[key], seen=now)",
            "replace(positions.shards[key], seen=now + timedelta(minutes=30))",
        ),
        (
            "core.landing.valid_through",
            "BEHIND_OTHERS = timedelta(minutes=10)",
            "BEHIND_OTHERS = timedelta(seconds=60)",
        ),
        # In traffic each shard that is asked about has news. Records come again after a quiet stretch.
        among={"retention": 86_400.0, "quiet": 7_200.0, "heartbeat": "worker", "fault_seconds": 300.0},
    ),
    a_bug(
        "fence-without-position",
        "a range lands whatever the table's position of the shard is",
        (
            "core.landing.landing",
            "if proposed.moves and _token(position) != _token(proposed.after):",
            "if False:",
        ),
    ),
    a_bug(
        "commit-without-swap",
        "a commit replaces commits that were made after the snapshot it is built on",
        (
            "tests.memory.table",
            "if self.head != made.parent or made.id < next(reversed(self.snapshots), 0):",
            "if False:",
        ),
    ),
    a_bug(
        "rebase",
        "a refused commit is put on the new head without being judged again (D9)",
        (
            "tests.memory.table",
            "landing = decide_landing(",
            "landing = next(iter(tries.values()), None) or decide_landing(",
        ),
    ),
    a_bug(
        "shared-file-lands-in-part",
        "a refused shard's file is left out, and the other shards in that file land without it (D10)",
        ("core.landing.landing", "    refused |= _closed_over_files(proposal, refused)\n", ""),
        seeds=200,
        among={"hosts": 3, "shards": 6, "troubles": {"freeze_run": 40.0, "wipe_rows": 120.0}},
    ),
    a_bug(
        "child-before-parents",
        "a child is read before its parents have ended",
        (
            "core.order.start_of_reading",
            "if (position is None or position.sequence is None) and above.waiting:",
            "if False:",
        ),
    ),
    a_bug(
        "origin-decided-twice",
        "the origin for LATEST is decided again by the next run",
        ("duties.streams.origin", "if facts.stream in state.positions.origins:", "if False:"),
        ("duties.streams.origin", "if read:", "if False:"),
        (
            "core.landing.landing",
            "if stream not in base.origins and not base.has_later_life(stream)",
            "if not base.has_later_life(stream)",
        ),
        (
            "core.shards.position",
            "return Positions({**decided, **self.origins}, self.shards)",
            "return Positions({**self.origins, **decided}, self.shards)",
        ),
    ),
    a_bug(
        "old-life-lands",
        "the stream's epoch isn't read again after the last page (D12)",
        ("duties.waves.wave_streams", "if now is not None and now.stream != stream:", "if False:"),
        among={"troubles": {"recreate": 60.0}},
    ),
    a_bug(
        "another-streams-records",
        "a task doesn't prove that it has found the driver's stream, and nobody looks at the numbers of the records",
        (
            "tests.memory.stage",
            "if (key.stream, source) not in self._proofs and facts.stream != key.stream:",
            "if False:",
        ),
        (
            "core.ledger.belonging",
            "if numbers is not None and number is not None and not numbers.has(number):",
            "if False:",
        ),
        among={"mix": {"elsewhere": 0.2}},
    ),
    a_bug(
        "checkpoint-before-commit",
        "the checkpoint is written before the commit",
        (
            "duties.waves.land",
            "        committed = self.ports.table.commit(",
            _CHECKPOINT_BEFORE_COMMIT + "        committed = self.ports.table.commit(",
        ),
    ),
)
