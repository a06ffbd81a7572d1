"""What a snapshot of ours says in its summary, and how it is read again."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.core.book import read_ledger, read_positions, write_ledger, write_positions
from pipeline.core.landing import Landing
from pipeline.core.lineage import LedgerPage
from pipeline.core.position import Positions
from pipeline.lake.chain import POSITIONS, STATE
from pipeline.lake.state_files import StateFiles

LEDGER = "headrace.ledger"
RUN = "headrace.run"
WRITER = "headrace.writer"
"""For people who look at the table's history; nothing reads it."""

LIMIT = 64 * 1024
"""Bytes. Every metadata file repeats the summaries of all snapshots."""
_PEOPLE_READ = 500  # characters


def summary_of(landing: Landing, states: StateFiles, *, writer: str) -> dict[str, str]:
    values = {POSITIONS: write_positions(landing.positions), LEDGER: write_ledger(landing.page)}
    if sum(map(len, values.values())) > LIMIT:
        values = {STATE: states.write(values)}
    runs = ", ".join(sorted({r.run for r in landing.page.ranges}))
    return values | {RUN: runs[:_PEOPLE_READ], WRITER: writer[:_PEOPLE_READ]}


def positions_in(summary: Mapping[str, str], states: StateFiles) -> Positions:
    return read_positions(_resolved(summary, states)[POSITIONS])


def ledger_in(summary: Mapping[str, str], states: StateFiles) -> LedgerPage:
    """Empty for a snapshot that carries positions forward and lands nothing."""
    text = _resolved(summary, states).get(LEDGER)
    return LedgerPage() if text is None else read_ledger(text)


def _resolved(summary: Mapping[str, str], states: StateFiles) -> Mapping[str, str]:
    return states.read(summary[STATE]) if STATE in summary else summary
