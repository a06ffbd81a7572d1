"""The checks of what is late: the lag, records that may leave the stream unread, the watermark, and upkeep. Pure functions on values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headrace.pipeline.checking.lag import Lag, lags, longest_lag, risks
from headrace.pipeline.checking.look import CheckLook, living_shards
from headrace.pipeline.checking.verdict import About, Offender, Verdict, sentence_of
from headrace.pipeline.core.leases.lag import LongestLag
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.words.words import counted, time_in_words
from headrace.pipeline.settings.blocks.dagster import CheckSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings

_LATE_UPKEEP = 4
"""How many times as many snapshots, or files, as upkeep leaves mean that upkeep doesn't do its work."""
_MOST_FILES = 5_000


def lag(look: CheckLook, limits: CheckSettings) -> Verdict:
    behind = {key: now.lag for key, now in lags(look).items() if now.lag is not None}
    # A shard that nobody has read has no lag in its row. Left out, it would never make this check
    # fail.
    never_read = {key: look.at - since for key, since in look.unread_since.items() if key not in behind}
    late = [
        *(
            (period, key, f"the shard is up to {time_in_words(period)} behind")
            for key, period in behind.items()
        ),
        *(
            (period, key, f"the shard was never read, for {time_in_words(period)} or more")
            for key, period in never_read.items()
        ),
    ]
    longest_behind: timedelta | None = max((period for period, _, _ in late), default=timedelta(0))
    if not longest_behind and not longest_lag(look).is_nothing:
        # Of a shard whose lag isn't known nobody may read that it isn't behind.
        longest_behind = None
    offenders = [
        Offender(partition_of(key), what)
        for period, key, what in sorted(late, key=lambda shard: (-shard[0], shard[1]))
        if period > limits.lag
    ]
    return Verdict(
        check="lag",
        sentence=sentence_of(
            offenders,
            f"shard is more than {time_in_words(limits.lag)} behind",
            told_lag(longest_lag(look)),
            more=f"shards are more than {time_in_words(limits.lag)} behind",
        ),
        offenders=tuple(offenders),
        behind=longest_behind,
    )


def told_lag(lag: LongestLag) -> str:
    if lag.is_nothing:
        return "no shard is behind"
    known = f"the shard that is furthest behind is {time_in_words(lag.known)} behind" if lag.known else ""
    unknown = f"the lag of {counted(lag.unknown, 'shard')} isn't known" if lag.unknown else ""
    return ", and ".join(part for part in (known, unknown) if part)


def retention_at_risk(look: CheckLook, limits: CheckSettings, before: Mapping[str, Lag]) -> Verdict:
    offenders = [
        Offender(
            partition_of(risk.lease_key),
            f"the shard loses data in {time_in_words(risk.loses_in)} at this rate: it is {time_in_words(risk.lag)} behind",
        )
        for risk in risks(look, before)
        if risk.loses_in < limits.retention
    ]
    if not offenders and look.unasked:
        # Without the retention no shard could be at risk, and the check would hold.
        stream, why = min(look.unasked.items())
        sentence = f"not known, because Kinesis didn't tell how long it keeps records: {why}"
        return Verdict(
            check="retention_at_risk",
            sentence=sentence,
            offenders=(Offender(stream, sentence),),
            is_grave=False,
        )
    return Verdict(
        check="retention_at_risk",
        sentence=sentence_of(
            offenders,
            f"shard loses data within {time_in_words(limits.retention)}",
            f"no shard loses data within {time_in_words(limits.retention)}",
            more=f"shards lose data within {time_in_words(limits.retention)}",
            first=True,
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def watermark_age(look: CheckLook, limits: CheckSettings) -> Verdict:
    offenders = [
        Offender(stream.name, f"the table is complete up to {through:%Y-%m-%d %H:%M:%S} UTC only")
        for stream, through in sorted(look.through.items())
        if look.at - through > limits.watermark
        if stream in {key.stream for key in living_shards(look.positions)}
    ]
    oldest = min(look.through.values(), default=None)
    good = (
        "the table doesn't state yet up to when it is complete"
        if oldest is None
        else f"the table has all records before {oldest:%Y-%m-%d %H:%M:%S} UTC"
    )
    return Verdict(
        check="watermark_age",
        sentence=sentence_of(
            offenders,
            f"stream is complete only up to more than {time_in_words(limits.watermark)} ago",
            good,
            more=f"streams are complete only up to more than {time_in_words(limits.watermark)} ago",
        ),
        offenders=tuple(offenders),
    )


def upkeep_behind(look: CheckLook, upkeep: UpkeepSettings) -> Verdict:
    offenders = []
    # A wave each ten seconds makes 360 snapshots an hour.
    kept = max(upkeep.keep_snapshots, upkeep.keep_for // timedelta(seconds=10))
    if upkeep.enabled and look.snapshots > _LATE_UPKEEP * kept:
        offenders.append(
            Offender("snapshots", f"{look.snapshots:,} snapshots, where upkeep leaves about {kept:,}")
        )
    facts = look.facts
    if facts is not None and upkeep.enabled and upkeep.compact and facts.files > _MOST_FILES:
        average = facts.bytes // facts.files
        # Many large files are a large table, and many small ones are what compaction would have put
        # together.
        if average < upkeep.compact_to // 64:
            offenders.append(Offender("files", f"{facts.files:,} data files of {average:,} bytes on average"))
    name = look.facts.name if look.facts else "the lake table"
    return Verdict(
        check="upkeep",
        about=About.UPKEEP,
        sentence=sentence_of(
            offenders,
            "sign that upkeep is behind",
            f"{name} has {counted(look.snapshots, 'snapshot')}"
            + (f" and {counted(facts.files, 'data file')}" if facts else ""),
            more="signs that upkeep is behind",
        ),
        offenders=tuple(offenders),
    )
