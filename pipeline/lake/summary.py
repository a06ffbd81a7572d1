"""The entries that Headrace writes into a snapshot's summary, and how they are read again."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from pipeline.core.landing import Landing
from pipeline.core.ledger_codec import read_ledger, read_positions, write_ledger, write_positions
from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.lake.position_chain import POSITIONS, STATE
from pipeline.lake.state_files import StateFiles

LEDGER = "headrace.ledger"
RUN = "headrace.run"
WRITER = "headrace.writer"
"""Name of the worker or command that committed, for people who look at the table's history. Headrace doesn't read it."""

LIMIT = 64 * 1024
"""The most bytes in a summary. Each commit writes a metadata file that repeats the summaries of all snapshots."""
_MOST_TEXT = 500
"""The most characters of an entry that only people read."""


def summary_of(landing: Landing, states: StateFiles, *, writer: str, table: UUID) -> dict[str, str]:
    """The summary's entries for this landing. Writes a state file first if they are too large."""
    values = {POSITIONS: write_positions(landing.positions), LEDGER: write_ledger(landing.page)}
    if sum(map(len, values.values())) > LIMIT:
        values = {STATE: states.write(values, of=table)}
    runs = ", ".join(sorted({r.run for r in landing.page.ranges}))
    return values | {RUN: runs[:_MOST_TEXT], WRITER: writer[:_MOST_TEXT]}


def positions_in(summary: Mapping[str, str], states: StateFiles) -> Positions:
    return read_positions(_resolved(summary, states)[POSITIONS])


def ledger_in(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
    """The ledger page in a summary; empty for a snapshot that lands no range and only repeats the positions."""
    text = _resolved(summary, states).get(LEDGER)
    return LedgerPage() if text is None else read_ledger(text)


def _resolved(summary: Mapping[str, str], states: StateFiles) -> Mapping[str, str]:
    return states.read(summary[STATE]) if STATE in summary else summary
