"""The checks. Each is a function of the values that were read, and returns one verdict. Pure functions on values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from headrace.pipeline.checking.hash_keys import unread
from headrace.pipeline.checking.lag import Lag, lags, longest_lag, risks
from headrace.pipeline.checking.look import CheckLook, TargetLook
from headrace.pipeline.checking.verdict import About, Offender, Verdict
from headrace.pipeline.core.leases.lag import LongestLag
from headrace.pipeline.core.shards.partition import partition_of, read_name
from headrace.pipeline.core.shards.position import Positions
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF
from headrace.pipeline.core.words.words import counted, time_in_words
from headrace.pipeline.settings.blocks.dagster import CheckSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings

_REMEMBERED = timedelta(days=7)
"""How long a recorded loss makes the check fail. After that it is only counted: a check that fails for ever is
switched off."""
_LATE_UPKEEP = 4
"""How many times as many snapshots, or files, as upkeep leaves mean that upkeep doesn't do its work."""
_MOST_FILES = 5_000
_AT_REST = 100
"""Records of the last hour from which on a part of them says something."""


def verdicts(
    look: CheckLook, limits: CheckSettings, upkeep: UpkeepSettings, before: Mapping[str, Lag]
) -> tuple[Verdict, ...]:
    """The verdicts of all checks.

    `before`: the lags that an earlier look found.
    """
    return (
        no_gaps(look),
        no_duplicates(look),
        parents_before_children(look),
        hash_keys_covered(look),
        lag(look, limits),
        retention_at_risk(look, limits, before),
        shards_read(look),
        watermark_age(look, limits),
        upkeep_behind(look, upkeep),
        last_proof(look, limits),
        recorded(look),
        *(verdict for target in look.targets for verdict in _of_target(look, target, limits)),
    )


def no_gaps(look: CheckLook) -> Verdict:
    young = [skip for skip in look.chains.skips if skip[1] is None or look.at - skip[1] < _REMEMBERED]
    offenders = [Offender(shard, sentence) for shard, sentence in look.chains.breaks]
    offenders += [Offender(shard, sentence) for shard, _, sentence in young]
    older = len(look.chains.skips) - len(young)
    if look.gone:
        offenders.append(Offender("the lake table", look.gone))
    return Verdict(
        check="no_gaps",
        sentence=look.gone
        or _told(
            offenders,
            "place where records are missing",
            "each range of the ledgers begins where the one before ended"
            + (f"; older than a week: {counted(older, 'loss', 'losses')}" if older else ""),
            more="places where records are missing",
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def no_duplicates(look: CheckLook) -> Verdict:
    offenders = [Offender(shard, sentence) for shard, sentence in look.chains.overlaps]
    return Verdict(
        check="no_duplicates",
        sentence=_told(
            offenders,
            "range that had landed before",
            "no range of the ledgers had landed before",
            more="ranges that had landed before",
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def parents_before_children(look: CheckLook) -> Verdict:
    offenders = [
        Offender(
            f"{child.stream.name}/{child.shard_id}",
            f"the shard has records while its parent {parent} hasn't ended",
        )
        for child, parent in _early_children(look)
    ]
    return Verdict(
        check="parents_before_children",
        sentence=_told(
            offenders,
            "shard that was read before its parent's end",
            "each parent was read to its end before its children",
            more="shards that were read before their parents' ends",
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def _early_children(look: CheckLook) -> Iterator[tuple[ShardKey, str]]:
    by_name = {(key.stream.name, key.shard_id): key for key in _present(look.positions)}
    for row in look.leases:
        name = read_name(row.key)
        for stream in (
            {key.stream.name for key in look.positions.shards} if name.stream is None else {name.stream}
        ):
            child = by_name.get((stream, row.shard_id))
            if child is None or look.positions.shards[child].sequence is None:
                continue
            for parent in sorted(row.parents):
                position = look.positions.of(ShardKey(child.stream, parent))
                if position is not None and not position.ended:
                    yield child, parent


def _present(positions: Positions) -> Iterator[ShardKey]:
    """The shards of the newest life of each stream, to which lease rows belong."""
    newest = {stream.arn: stream for stream in sorted(positions.streams())}
    return (key for key in positions.shards if newest.get(key.stream.arn) == key.stream)


def hash_keys_covered(look: CheckLook) -> Verdict:
    offenders = [
        Offender(stream or "the stream", f"no open lease for hash keys {gap.start} to {gap.end}")
        for stream, gap in unread(look.leases)
    ]
    offenders += [Offender(stream.name, f"the stream {SWITCHED_OFF}") for stream in look.switched_off]
    return Verdict(
        check="hash_keys_covered",
        sentence=_told(
            offenders,
            "stream or range of hash keys without an open lease",
            "each hash key belongs to an open lease"
            if any(row.hash_range is not None for row in look.leases)
            else "no stream that is read by hash keys, and none that was switched off",
            more="streams or ranges of hash keys without an open lease",
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


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
        sentence=_told(
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
    return Verdict(
        check="retention_at_risk",
        sentence=_told(
            offenders,
            f"shard loses data within {time_in_words(limits.retention)}",
            f"no shard loses data within {time_in_words(limits.retention)}",
            more=f"shards lose data within {time_in_words(limits.retention)}",
            first=True,
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def shards_read(look: CheckLook) -> Verdict:
    offenders = [
        Offender(partition_of(row.key), f"since {row.failure.since:%Y-%m-%d %H:%M:%S} UTC: {row.failure.why}")
        for row in look.leases
        if row.failure is not None and not row.has_ended
    ]
    return Verdict(
        check="shards_read",
        sentence=_told(
            offenders,
            "shard can't be read or landed",
            "no shard fails",
            more="shards can't be read or landed",
        ),
        offenders=tuple(offenders),
    )


def watermark_age(look: CheckLook, limits: CheckSettings) -> Verdict:
    offenders = [
        Offender(stream.name, f"the table is complete up to {through:%Y-%m-%d %H:%M:%S} UTC only")
        for stream, through in sorted(look.through.items())
        if look.at - through > limits.watermark
        if stream in {key.stream for key in _present(look.positions)}
    ]
    oldest = min(look.through.values(), default=None)
    good = (
        "the table doesn't state yet up to when it is complete"
        if oldest is None
        else f"the table has all records before {oldest:%Y-%m-%d %H:%M:%S} UTC"
    )
    return Verdict(
        check="watermark_age",
        sentence=_told(
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
        sentence=_told(
            offenders,
            "sign that upkeep is behind",
            f"{name} has {counted(look.snapshots, 'snapshot')}"
            + (f" and {counted(facts.files, 'data file')}" if facts else ""),
            more="signs that upkeep is behind",
        ),
        offenders=tuple(offenders),
    )


def last_proof(look: CheckLook, limits: CheckSettings) -> Verdict:
    offenders = []
    if look.disproved:
        offenders.append(Offender("the last proof", look.disproved))
    elif limits.proof is not None and (look.proved_at is None or look.at - look.proved_at > limits.proof):
        what = (
            "no proof has held yet"
            if look.proved_at is None
            else f"a proof last held {time_in_words(look.at - look.proved_at)} ago"
        )
        offenders.append(Offender("the last proof", f"{what}; run the prove job"))
    good = (
        "there was no proof yet"
        if look.proved_at is None
        else f"the proof of {look.proved_at:%Y-%m-%d %H:%M:%S} UTC holds"
    )
    return Verdict(
        check="last_proof",
        about=About.PROOF,
        sentence=offenders[0].what if offenders else good,
        offenders=tuple(offenders),
        is_grave=bool(look.disproved),
    )


def recorded(look: CheckLook) -> Verdict:
    lost = look.lost_ledgers or 0
    offenders = (
        (Offender("ledgers", f"{counted(lost, 'part')} of the history without a ledger"),) if lost else ()
    )
    good = (
        "there is no lineage table yet"
        if look.lost_ledgers is None
        else "the ledger of each snapshot is there, or still in the lake table"
    )
    return Verdict(
        check="recorded",
        about=About.LINEAGE,
        sentence=offenders[0].what if offenders else good,
        offenders=offenders,
    )


def _of_target(look: CheckLook, target: TargetLook, limits: CheckSettings) -> Iterator[Verdict]:
    since = target.behind_since
    late = since is not None and look.at - since > limits.lag
    offenders = (
        (Offender(target.table, f"the table has lacked records since {since:%Y-%m-%d %H:%M:%S} UTC"),)
        if late and since is not None
        else ()
    )
    yield Verdict(
        check="keeps_up",
        about=About.TYPED,
        target=target.name,
        sentence=offenders[0].what if offenders else f"{target.table} keeps up with the lake table",
        offenders=offenders,
    )
    yield _quarantine_rate(target, limits)


def _quarantine_rate(target: TargetLook, limits: CheckSettings) -> Verdict:
    aside = target.aside.added_lately if target.aside else 0
    parsed = target.typed.added_lately if target.typed else 0
    part = aside / (aside + parsed) if aside else 0.0
    told = f"{aside:,} of {counted(aside + parsed, 'record')} of the last hour were set aside ({part:.1%})"
    is_bad = part > limits.quarantined and aside + parsed >= _AT_REST
    total = target.aside.rows if target.aside else 0
    return Verdict(
        check="quarantine_rate",
        about=About.QUARANTINE,
        target=target.name,
        sentence=told
        if aside + parsed
        else f"nothing came in the last hour; {counted(total, 'record')} in all",
        offenders=(
            Offender(
                target.quarantine,
                f"{told}; allowed: {limits.quarantined:.1%}. Its column `reason` tells why each was; correct the schema or the code, then "
                "`headrace redrive` parses them again",
            ),
        )
        if is_bad
        else (),
    )


def _told(
    offenders: list[Offender], one: str, good: str, *, more: str | None = None, first: bool = False
) -> str:
    if not offenders:
        return good
    sentence = counted(len(offenders), one, more)
    return (
        f"{sentence}: {offenders[0].name}: {offenders[0].what}" if first or len(offenders) == 1 else sentence
    )
