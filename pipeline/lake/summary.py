"""The entries that Headrace writes into a snapshot's summary, and how they are read again."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from pipeline.core.landing import Landing
from pipeline.core.ledger_codec import read_ledger, read_positions, write_ledger, write_positions
from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.core.valid_through import Through, overall
from pipeline.core.valid_through_text import read_through, time_text, write_through
from pipeline.lake.position_chain import POSITIONS, STATE
from pipeline.lake.state_files import StateFiles

LEDGER = "headrace.ledger"
RUN = "headrace.run"
WRITER = "headrace.writer"
"""Name of the worker or command that committed, for people who look at the table's history. Headrace doesn't read it."""

THROUGH = "headrace.valid-through"
"""Up to when the table has all records of all streams, for people and other programs. Left out where that isn't known."""
THROUGH_OF = "headrace.valid-through.streams"
"""The same of each stream, by which the next commit goes on: [[ARN, epoch, time], ...]."""

LIMIT = 64 * 1024
"""The most bytes in a summary. Each commit writes a metadata file that repeats the summaries of all snapshots."""
_MOST_TEXT = 500
"""The most characters of an entry that only people read."""


def summary_of(landing: Landing, states: StateFiles, *, writer: str, table: UUID) -> dict[str, str]:
    """The summary's entries for this landing. Writes a state file first if they are too large."""
    values = {POSITIONS: write_positions(landing.positions), LEDGER: write_ledger(landing.page)}
    if landing.through:
        values[THROUGH_OF] = write_through(landing.through)
    if sum(map(len, values.values())) > LIMIT:
        values = {STATE: states.write(values, of=table)}
    runs = ", ".join(sorted({r.run for r in landing.page.ranges}))
    until = overall(landing.through, landing.positions)
    told = {} if until is None else {THROUGH: time_text(until)}
    return values | told | {RUN: runs[:_MOST_TEXT], WRITER: writer[:_MOST_TEXT]}


def positions_in(summary: Mapping[str, str], states: StateFiles) -> Positions:
    return read_positions(_resolved(summary, states)[POSITIONS])


def carried_in(summary: Mapping[str, str], states: StateFiles) -> tuple[Positions, Through]:
    """What each commit carries on: the positions, and what the snapshot states (nothing by an older version of Headrace)."""
    values = _resolved(summary, states)
    return read_positions(values[POSITIONS]), read_through(values.get(THROUGH_OF, "[]"))


def ledger_in(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
    """The ledger page in a summary; empty for a snapshot that lands no range and only repeats the positions."""
    text = _resolved(summary, states).get(LEDGER)
    return LedgerPage() if text is None else read_ledger(text)


def _resolved(summary: Mapping[str, str], states: StateFiles) -> Mapping[str, str]:
    return states.read(summary[STATE]) if STATE in summary else summary
