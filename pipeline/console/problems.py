"""Problems that need a person, and facts that are worth knowing: the findings of `headrace.pipeline.inspect`, and
those that need the stream or many readings of the tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headrace.pipeline.console.values import LeaderView, Severity, ShardView, Trouble
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.inspect.finding import Finding

# Told by the leader's own part of the page, with the age of the lock.
_OF_THE_LEADER: Final = frozenset({"leader-dead"})
_NAMED: Final = 3


def problems_of(
    findings: Iterable[Finding],
    shards: Sequence[ShardView],
    leader: LeaderView,
    troubles: Iterable[Trouble] = (),
) -> tuple[Trouble, ...]:
    """The problems that the page lists, the worst first.

    `troubles`: those about streams that couldn't be described, with the reasons.
    """
    problems = [
        *_leader(leader),
        *_at_risk(shards),
        *_orphans(shards),
        *(_of_finding(finding) for finding in findings if finding.code not in _OF_THE_LEADER),
        *troubles,
    ]
    return tuple(sorted(problems, key=lambda problem: -problem.level))


def _of_finding(finding: Finding) -> Trouble:
    return Trouble(
        finding.code, Severity.BAD if finding.needs_person else Severity.NOTE, finding.sentence, finding.names
    )


def _leader(leader: LeaderView) -> Iterator[Trouble]:
    if leader.level is Severity.BAD:
        yield Trouble("leader-stuck", leader.level, leader.sentence)


def _at_risk(shards: Sequence[ShardView]) -> Iterator[Trouble]:
    at_risk = [shard for shard in shards if shard.risk.level is Severity.BAD]
    if at_risk:
        first = min(at_risk, key=lambda shard: (shard.risk.loses_in is None, shard.risk.loses_in))
        more = f"; {counted(len(at_risk), 'shard')} at risk" if len(at_risk) > 1 else ""
        yield Trouble(
            "retention-at-risk",
            Severity.BAD,
            f"{partition_of(first.kin.key)}: {first.risk.sentence}{more}",
            tuple(shard.kin.key for shard in at_risk),
        )
    unsure = [shard for shard in shards if shard.risk.level is Severity.WARN]
    if unsure:
        yield Trouble(
            "retention-near",
            Severity.WARN,
            f"{counted(len(unsure), 'shard')} may lose records: {partition_of(unsure[0].kin.key)}: {unsure[0].risk.sentence}",
            tuple(shard.kin.key for shard in unsure),
        )


def _orphans(shards: Sequence[ShardView]) -> Iterator[Trouble]:
    keys = tuple(shard.kin.key for shard in shards if shard.state == "orphan")
    if keys:
        names = ", ".join(map(partition_of, keys[:_NAMED])) + (", ..." if len(keys) > _NAMED else "")
        yield Trouble(
            "orphan-leases",
            Severity.BAD,
            f"{counted(len(keys), 'lease')} of shards that Kinesis doesn't list any more, and that weren't read to their "
            f"ends ({names}): what was unread is lost. If this isn't the application's stream, name the right one",
            keys,
        )
