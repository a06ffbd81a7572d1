"""Whether an application is well, judged from one reading of its tables. Pure functions on values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF, switched_off
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.progress import ShardProgress
from headrace.pipeline.settings.values import show


class HealthCode(IntEnum):
    """The exit code of `headrace health`."""

    WELL = 0
    ILL = 1
    UNKNOWN = 2
    """It can't be told: a table can't be read."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    name: str
    health: HealthCode
    sentence: str


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    application: str
    checks: tuple[HealthCheck, ...]

    @property
    def health(self) -> HealthCode:
        """The exit code. A known trouble counts more than something that can't be found out."""
        found = {check.health for check in self.checks}
        return next(
            (health for health in (HealthCode.ILL, HealthCode.UNKNOWN) if health in found), HealthCode.WELL
        )

    def __str__(self) -> str:
        troubles = [check.sentence for check in self.checks if check.health is not HealthCode.WELL]
        words = {
            HealthCode.WELL: "is well",
            HealthCode.ILL: "is not well",
            HealthCode.UNKNOWN: "can't be judged",
        }
        why = "; ".join(_advice_once(troubles) or (check.sentence for check in self.checks))
        return f"{self.application} {words[self.health]}: {why}"


def _advice_once(troubles: Sequence[str]) -> list[str]:
    """The sentences, where what several of them say after their first full stop is said with the first of them only:
    tables that are missing together have one reason."""
    advice_so_far: set[str] = set()
    sentences = []
    for trouble in troubles:
        what, _, advice = trouble.partition(". ")
        sentences.append(what if advice in advice_so_far else trouble)
        advice_so_far.add(advice)
    return sentences


@dataclass(frozen=True, slots=True)
class LeaderState:
    owner: str | None
    """The worker whose deployment leads; None where the lock is free."""
    beats: bool


def check_leader(state: LeaderState) -> HealthCheck:
    if state.owner is None:
        return HealthCheck(
            "leader", HealthCode.ILL, "nobody leads, so no lease is assigned and no new shard is found"
        )
    if not state.beats:
        return HealthCheck(
            "leader",
            HealthCode.ILL,
            f"the lock of leader {state.owner} stands still, so the leader's sensor is dead",
        )
    return HealthCheck("leader", HealthCode.WELL, f"{state.owner} leads")


def check_shards(shards: Sequence[ShardProgress], *, most: timedelta) -> Iterator[HealthCheck]:
    """Whether shards fail, and whether one is too far behind.

    `shards`: the open ones, as the inspector judges them. `most`: the longest lag that still counts as well.
    """
    failing = sorted((shard for shard in shards if shard.why is not None), key=lambda shard: shard.lease)
    if failing:
        names = failing[0].name + (", ..." if len(failing) > 1 else "")
        fails = "fails" if len(failing) == 1 else "fail"
        yield HealthCheck("shards", HealthCode.ILL, f"{counted(len(failing), 'shard')} {fails} ({names})")
    else:
        yield HealthCheck("shards", HealthCode.WELL, f"none of {counted(len(shards), 'open shard')} fails")
    if not shards:
        yield HealthCheck("lag", HealthCode.WELL, "no shard is open")
        return
    yield _check_lag(shards, most)


def check_streams(positions: Positions, asked_for: Collection[str]) -> Iterator[HealthCheck]:
    """Whether a stream of a DynamoDB table was switched off: then nothing of the table lands any more.

    `asked_for`: the names of the streams that the settings name.
    """
    for stream in switched_off(positions, asked_for):
        yield HealthCheck("streams", HealthCode.ILL, f"the stream {stream.name} {SWITCHED_OFF}")


def _check_lag(shards: Sequence[ShardProgress], most: timedelta) -> HealthCheck:
    last = max(shards, key=lambda shard: timedelta(-1) if shard.lag is None else shard.lag)
    known = None if last.lag is None else show(timedelta(seconds=round(last.lag.total_seconds())))
    # Before what isn't known: a shard that is known to be too far behind is the more certain
    # trouble.
    if last.lag is not None and last.lag > most:
        return HealthCheck(
            "lag", HealthCode.ILL, f"{last.name} is up to {known} behind, which is more than {show(most)}"
        )
    # KCL's workers never write into a row how far behind the shard is: that is no trouble of this application.
    unread = sorted(shard.name for shard in shards if shard.lag is None and not shard.is_kcls)
    if unread:
        names = unread[0] + (", ..." if len(unread) > 1 else "")
        return HealthCheck(
            "lag",
            HealthCode.UNKNOWN,
            f"nobody has looked into {counted(len(unread), 'open shard')} yet ({names})",
        )
    of_kcl = sum(shard.lag is None for shard in shards)
    parts = [
        *([] if known is None else [f"the lag is {known} at most"]),
        *([f"KCL's workers don't tell the lag of {counted(of_kcl, 'shard')}"] if of_kcl else []),
    ]
    return HealthCheck("lag", HealthCode.WELL, "; ".join(parts))
