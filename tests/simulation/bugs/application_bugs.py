"""Planted bugs of processors that are applications of their own (I47): checkpoints that nobody asked for, records that a process
doesn't get, and streams that come and go."""

from __future__ import annotations

from typing import Any, Final

from headrace.pipeline.settings.choices import InitialPosition
from tests.simulation.bugs.planted import a_bug


def _fleet(**application: Any) -> dict[str, Any]:
    """Fleets whose processor dies, stands still and loses its runs often."""
    often = {
        "is_on": True,
        "call_records": 3,
        "dies": 0.03,
        "pauses": 0.03,
        "cut": 0.05,
        "kills": 50.0,
        "retries": True,
        "keeps": False,
    }
    return {
        "streams": 1,
        "added": 0,
        "removed": False,
        "discovered": False,
        "of_a_table": False,
        "quiet": 0.0,
        "keeps": 0.0,
        "retention": 86_400.0,
        "shards": 2,
        "puts_every": 1.0,
        "fault_seconds": 300.0,
        "settle_seconds": 1000.0,
        "troubles": {"split": 60.0},
        "application": often | application,
    }


APPLICATIONS: Final = (
    a_bug(
        "goes-on-with-anothers-claim",
        "a run that was frozen takes the row of its worker for its own, though another run has claimed it since",
        (
            "processors.application.row_checkpoints",
            "(row.holder, row.run_claim) != (self.me, self.lease.run_claim)",
            "row.holder != self.me",
        ),
        among=_fleet(pauses=0.1),
    ),
    a_bug(
        "checkpointed-as-read",
        "the row goes to the last record that was read, behind the processor's back",
        (
            "processors.application.delivery",
            "self._backlog.position(checkpoint, after=after, read=read.upto)",
            "read.upto",
        ),
        seeds=20,
        among=_fleet(),
    ),
    a_bug(
        "ended-without-the-records-before",
        "a process that begins again at the end of its shard doesn't get the records that the one before hasn't checkpointed",
        (
            "processors.application.delivery",
            "    def _end_once_more(self) -> None:\n        self._deliver_once_more()\n",
            "    def _end_once_more(self) -> None:\n",
        ),
        among=_fleet(dies=0.1),
    ),
    a_bug(
        "rest-of-an-aggregate-passed",
        "a checkpoint inside of an aggregate passes over the rest of it",
        (
            "processors.application.row_positions",
            "            inside=True,\n",
            "            inside=False,\n",
        ),
        seeds=20,
        among=_fleet() | {"aggregates": True},
    ),
    a_bug(
        "kept-behind-anothers-work",
        "a process that was kept goes on where it was, though another one has worked on its shard since",
        (
            "processors.application.delivery",
            "(memory.code, memory.epoch, memory.checkpoint) != own",
            "memory.code != self.code",
        ),
        among=_fleet(keeps=True, steals=40.0, dies=0.0),
    ),
    a_bug(
        "added-as-read-before",
        "a stream that is created while others are read counts as one that the processor has read before, and not at LATEST",
        (
            "processors.application.beginnings",
            "[row for row in rows if _name(row) == _name(new)]",
            "list(rows)",
        ),
        seeds=20,
        among=_fleet(position=InitialPosition.LATEST) | {"streams": 3, "added": 1},
    ),
    a_bug(
        "removed-and-not-waited-for",
        "the rows of a stream that was taken out of the settings, with all its checkpoints, are deleted at once",
        (
            "duties.streams.streams",
            "expired(memory.former, self.settings.former_streams_wait)",
            "frozenset(memory.former)",
        ),
        seeds=20,
        among=_fleet() | {"streams": 3, "removed": True},
    ),
)
