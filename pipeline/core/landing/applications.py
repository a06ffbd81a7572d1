"""Finds out from the commits of the lake table whether two applications land the same stream in it.

    commits of main, oldest first   what it is
    A A A A                         one application, however many deployments, workers and commands it has
    A A B B                         the application got another name, or another one has taken over
    A A B A                         ... and the first one has come back once
    A B A B                         both are at work

Two applications at work lose or double nothing, since each commit is refused that doesn't begin at the table's
position. But each record is read twice. Only commits that landed ranges count, of one stream; upkeep, rolled-back
snapshots and other streams say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.stream_names import name_in

LOOKED_BACK: Final = timedelta(hours=1)
"""How old the commits may be by which two applications are told to be at work."""
MOST_COMMITS: Final = 200
"""The most commits that one look goes by, the newest ones."""
_ALTERNATIONS: Final = 4
"""A B A B. A name that is changed and changed back makes three."""


@dataclass(frozen=True, slots=True)
class LandedBy:
    """One commit of main that landed ranges."""

    when: datetime
    application: str
    streams: frozenset[str] = field(default_factory=frozenset)
    """The ARNs of the streams of its ranges."""


@dataclass(frozen=True, slots=True)
class OtherApplication:
    """An application beside this one, which lands a stream that this one lands."""

    name: str
    streams: tuple[str, ...]
    """The names of these streams."""
    last: datetime
    """The time of its newest commit."""


def application_name(settings: Settings) -> str:
    """The name of the application that its commits state. Two deployments of one application have one lease table."""
    if settings.lease_table == settings.application:
        return settings.application
    return f"{settings.application} (lease table {settings.lease_table})"


def others_at_work(commits: Iterable[LandedBy], me: str) -> tuple[OtherApplication, ...]:
    """The other applications whose commits for a stream of `me` alternate with those of `me`. `commits`: in the
    order of main, from either end.
    """
    # Commits of versions that didn't write the name, and of other engines, say nothing about whose they are.
    signed = [commit for commit in commits if commit.application]
    names = sorted({commit.application for commit in signed} - {me})
    neighbours = (_beside(signed, me, name) for name in names)
    return tuple(neighbour for neighbour in neighbours if neighbour is not None)


def _beside(commits: list[LandedBy], me: str, name: str) -> OtherApplication | None:
    pair_commits = [commit for commit in commits if commit.application in {me, name}]
    shared = sorted(
        arn
        for arn in {arn for commit in pair_commits for arn in commit.streams}
        if _takes_turns(pair_commits, arn)
    )
    if not shared:
        return None
    last = max(commit.when for commit in pair_commits if commit.application == name)
    return OtherApplication(name, tuple(name_in(arn) for arn in shared), last)


def _takes_turns(commits: list[LandedBy], arn: str) -> bool:
    # groupby joins neighbours only: it begins a group wherever the application changes.
    turns = groupby(commit.application for commit in commits if arn in commit.streams)
    return sum(1 for _ in turns) >= _ALTERNATIONS


def notice_of(neighbours: Iterable[OtherApplication]) -> str | None:
    """A sentence that tells people of other applications at work in the table; None where there are none."""
    descriptions = [
        f"{neighbour.name} ({', '.join(neighbour.streams)}; last at {neighbour.last:%Y-%m-%d %H:%M:%S}Z)"
        for neighbour in neighbours
    ]
    if not descriptions:
        return None
    more = "another application lands" if len(descriptions) == 1 else "other applications land"
    return (
        f"{more} the same stream in this table: {'; '.join(descriptions)}. "
        "No record is lost or doubled, but each is read twice, and waves are refused. "
        "Stop one of the two, or give it a table of its own (landing.table): "
        'see "Two applications on one table" in docs/use/workers-and-streams.md'
    )
