"""The applications that have landed ranges lately, from the summaries of main's snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from pyiceberg.table import Table

from headrace.pipeline.core.landing.applications import MOST_COMMITS, LandedBy
from headrace.pipeline.lake.table.catalog import asking
from headrace.pipeline.lake.table.history import head_of, links_of
from headrace.pipeline.lake.table.position_chain import Link
from headrace.pipeline.lake.table.state_files import StateFiles
from headrace.pipeline.lake.table.summary import APPLICATION, RUN, ledger_in

_LEDGERS_OF_EACH: Final = 12
"""The newest commits of each application whose ledgers are read: ledgers of many shards are files. No ledger is read
while there is only one application."""


def landings_in(table: Table, states: StateFiles, *, since: datetime) -> tuple[LandedBy, ...]:
    """The commits of main that landed ranges, newest first, as far as this metadata has them."""
    links = tuple(islice(_landed(table, since), MOST_COMMITS))
    if len({_application(link) for link in links}) < 2:
        return tuple(LandedBy(_time(link), _application(link)) for link in links)
    counts: Counter[str] = Counter()
    landings = []
    for link in links:
        counts[_application(link)] += 1
        if counts[_application(link)] <= _LEDGERS_OF_EACH:
            with asking("a ledger of the lake table"):
                ranges = ledger_in(link.summary, states).ranges
            streams = frozenset(recorded.key.stream.arn for recorded in ranges)
            landings.append(LandedBy(_time(link), _application(link), streams))
    return tuple(landings)


def _landed(table: Table, since: datetime) -> Iterator[Link]:
    links, snapshot = links_of(table.metadata), head_of(table)
    while snapshot is not None and (link := links.get(snapshot)) is not None and _time(link) >= since:
        # A cherry-pick repeats the summary of the commit that it brings back.
        if link.ours and link.summary.get(RUN) and _application(link) and not link.picked:
            yield link
        snapshot = link.parent


def _application(link: Link) -> str:
    return link.summary.get(APPLICATION, "")


def _time(link: Link) -> datetime:
    return datetime.fromtimestamp(link.at / 1000, UTC)
