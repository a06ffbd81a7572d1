"""The checks. Each is a function of the values that were read, and returns one verdict. Pure functions on values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from headrace.pipeline.checking.hash_keys import unread
from headrace.pipeline.checking.lag import Lag
from headrace.pipeline.checking.lateness import lag, retention_at_risk, upkeep_behind, watermark_age
from headrace.pipeline.checking.look import CheckLook, TargetLook, living_shards
from headrace.pipeline.checking.verdict import About, Offender, Verdict, sentence_of
from headrace.pipeline.core.shards.partition import partition_of, read_name
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.core.shards.switched_off import SWITCHED_OFF
from headrace.pipeline.core.words.words import counted, time_in_words
from headrace.pipeline.settings.blocks.dagster import CheckSettings
from headrace.pipeline.settings.blocks.upkeep import UpkeepSettings

_OF_THE_LAKE_TABLE = frozenset(
    {
        "no_duplicates",
        "parents_before_children",
        "watermark_age",
        "upkeep",
        "recorded",
        "keeps_up",
        "quarantine_rate",
    }
)
"""The checks that judge what the lake table has; `no_gaps` says itself that it is gone."""
_REMEMBERED = timedelta(days=7)
"""How long a recorded loss makes the check fail. After that it is only counted: a check that fails for ever is
switched off."""
_AT_REST = 100
"""Records of the last hour from which on a part of them says something."""


def verdicts(
    look: CheckLook, limits: CheckSettings, upkeep: UpkeepSettings, before: Mapping[str, Lag]
) -> tuple[Verdict, ...]:
    """The verdicts of all checks.

    `before`: the lags that an earlier look found.
    """
    found = (
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
    return tuple(_not_known(look, verdict) for verdict in found) if look.gone else found


def _not_known(look: CheckLook, verdict: Verdict) -> Verdict:
    """What a table that is gone can't show isn't known. Without rows every one of these checks would hold."""
    if verdict.check not in _OF_THE_LAKE_TABLE or not verdict.holds:
        return verdict
    sentence = f"not known: {look.gone}"
    return replace(
        verdict, sentence=sentence, offenders=(Offender("the lake table", sentence),), is_grave=False
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
        or sentence_of(
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
        sentence=sentence_of(
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
        sentence=sentence_of(
            offenders,
            "shard that was read before its parent's end",
            "each parent was read to its end before its children",
            more="shards that were read before their parents' ends",
        ),
        offenders=tuple(offenders),
        is_grave=True,
    )


def _early_children(look: CheckLook) -> Iterator[tuple[ShardKey, str]]:
    by_name = {(key.stream.name, key.shard_id): key for key in living_shards(look.positions)}
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


def hash_keys_covered(look: CheckLook) -> Verdict:
    offenders = [
        Offender(stream or "the stream", f"no open lease for hash keys {gap.start} to {gap.end}")
        for stream, gap in unread(look.leases)
    ]
    offenders += [Offender(stream.name, f"the stream {SWITCHED_OFF}") for stream in look.switched_off]
    return Verdict(
        check="hash_keys_covered",
        sentence=sentence_of(
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


def shards_read(look: CheckLook) -> Verdict:
    offenders = [
        Offender(partition_of(row.key), f"since {row.failure.since:%Y-%m-%d %H:%M:%S} UTC: {row.failure.why}")
        for row in look.leases
        if row.failure is not None and not row.has_ended
    ]
    return Verdict(
        check="shards_read",
        sentence=sentence_of(
            offenders,
            "shard can't be read or landed",
            "no shard fails",
            more="shards can't be read or landed",
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
