"""The checks on an application's tables: as Dagster's definitions, and as evaluations.

    the sensor `<application>_checks`    evaluates the checks each minute, and writes an evaluation where one has changed
    the Checks tab, or a job             evaluates all at once, when a person asks for it

Both use `headrace.pipeline.checking`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg

from headrace.assets.names import (
    lineage_key,
    parsed_key,
    proof_key,
    quarantine_key,
    records_key,
    slug,
    upkeep_key,
)
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.checking.judge import verdicts
from headrace.pipeline.checking.look import CheckLook
from headrace.pipeline.checking.looking import CheckLooking
from headrace.pipeline.checking.verdict import About, Verdict
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import targets_of

_MOST_OFFENDERS = 50
"""Rows of the table in an evaluation's metadata: Dagster keeps each evaluation."""

_UNKNOWN_SINCE, _KNOWN = "not known since", "known before"
"""Metadata of the evaluation of a check that nobody can look at."""

_RECORDS = {
    "no_gaps": "No record is missing between two ranges of a shard, and no loss was recorded in the last week.",
    "no_duplicates": "No range of a shard has landed twice.",
    "parents_before_children": "No record of a child shard has landed before the last one of its parents.",
    "hash_keys_covered": "Each hash key of a stream belongs to a shard with an open lease, so that somebody reads it.",
    "lag": "No shard is further behind its stream than `dagster.checks.lag`.",
    "retention_at_risk": "No shard loses unread records within `dagster.checks.retention`, at the rate at which it falls "
    "behind now.",
    "shards_read": "Each shard can be read and landed.",
    "watermark_age": "The time up to which the table has all records isn't longer ago than `dagster.checks.watermark`.",
}
_LINEAGE = {"recorded": "Each snapshot's ledger is in the lineage table, or still in the lake table."}
_UPKEEP = {"upkeep": "Snapshots and small files don't pile up."}
_PROOF = {"last_proof": "The last proof holds, and isn't older than `dagster.checks.proof`."}
_TYPED = {"keeps_up": "The typed table doesn't lack records for longer than `dagster.checks.lag`."}
_QUARANTINE = {
    "quarantine_rate": "Of the last hour's records, not more than `dagster.checks.quarantined` were set aside."
}


_OF_APPLICATION = {
    About.RECORDS: records_key,
    About.LINEAGE: lineage_key,
    About.UPKEEP: upkeep_key,
    About.PROOF: proof_key,
}
"""The key of the only asset of its kind."""


@dataclass(frozen=True, slots=True)
class UnknownChecks:
    """That the checks aren't known, because nobody can look."""

    since: datetime
    why: str


def check_specs(settings: Settings) -> list[dg.AssetCheckSpec]:
    of_assets = [(records_key(settings), _RECORDS), (lineage_key(settings), _LINEAGE)]
    of_assets += [(upkeep_key(settings), _UPKEEP), (proof_key(settings), _PROOF)]
    for target in settings.parse:
        of_assets += [(parsed_key(settings, target), _TYPED), (quarantine_key(settings, target), _QUARANTINE)]
    blocking = settings.dagster.checks.blocking
    return [
        dg.AssetCheckSpec(name, asset=asset, description=about, blocking=name in blocking)
        for asset, checks in of_assets
        for name, about in checks.items()
    ]


def build_checks(wiring: Wiring) -> dg.AssetChecksDefinition:
    settings = wiring.settings

    @dg.multi_asset_check(
        name=f"{slug(settings.application)}_checks", specs=check_specs(settings), can_subset=True
    )
    def checks(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        asked = context.selected_asset_check_keys
        looking = CheckLooking(settings, wiring.ports.clock)
        try:
            look = check_now(wiring, looking, context.instance)
        except HeadraceError as error:
            # The run may have materialized the asset before, and that has gone well.
            unknown = UnknownChecks(wiring.ports.clock.now(), str(error))
            for key in sorted(asked):
                yield _result_of(evaluation_of_unknown(settings, key, unknown, context.instance))
            return
        for verdict in verdicts(look, settings.dagster.checks, settings.upkeep, looking.lags_before):
            if (key := check_key_of(settings, verdict)) in asked:
                yield _result_of(evaluation_of(settings, verdict))

    return checks


def _result_of(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        severity=evaluation.severity,
        description=evaluation.description,
        metadata=evaluation.metadata,
    )


def check_now(wiring: Wiring, looking: CheckLooking, instance: dg.DagsterInstance) -> CheckLook:
    proved_at, disproved = _last_proof(wiring.settings, instance)
    return looking.look(wiring.look_ports(), proved_at=proved_at, disproved=disproved)


def _last_proof(settings: Settings, instance: dg.DagsterInstance) -> tuple[datetime | None, str]:
    """When the last proof held, and what a later one found. The prove job leaves both on its asset."""
    key = proof_key(settings)
    held = instance.get_latest_materialization_event(key)
    observed = instance.fetch_observations(key, limit=1).records
    proved_at = None if held is None else datetime.fromtimestamp(held.timestamp, UTC)
    # A proof that fails leaves an observation and no materialization, so that nothing which depends
    # on the proof is started by it.
    if observed and (held is None or observed[0].timestamp > held.timestamp):
        seen = observed[0].asset_observation
        return proved_at, str(
            seen.metadata["in short"].value
        ) if seen and "in short" in seen.metadata else "no"
    return proved_at, ""


def check_key_of(settings: Settings, verdict: Verdict) -> dg.AssetCheckKey:
    if (key_of := _OF_APPLICATION.get(verdict.about)) is not None:
        return dg.AssetCheckKey(key_of(settings), verdict.check)
    (target,) = targets_of(settings, verdict.target)
    asset = parsed_key if verdict.about is About.TYPED else quarantine_key
    return dg.AssetCheckKey(asset(settings, target), verdict.check)


def evaluation_of(settings: Settings, verdict: Verdict) -> dg.AssetCheckEvaluation:
    """The verdict as an event that belongs to no run."""
    key = check_key_of(settings, verdict)
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=verdict.holds,
        severity=_severity(verdict),
        description=verdict.sentence,
        metadata=_metadata(verdict),
        blocking=key.name in settings.dagster.checks.blocking,
    )


def evaluation_of_unknown(
    settings: Settings, key: dg.AssetCheckKey, unknown: UnknownChecks, instance: dg.DagsterInstance
) -> dg.AssetCheckEvaluation:
    """The evaluation of a check that nobody can look at: it fails, and has what was known before.

    An error stays an error: who is alerted of errors alone would take a warning for the end of it.
    """
    # The newest record is that of the run which evaluates the check just now, where a person has asked for one.
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=5)
    evaluations = (record.evaluation for record in records)
    before = next((one for one in evaluations if isinstance(one, dg.AssetCheckEvaluation)), None)
    since, known = unknown.since.astimezone(UTC).isoformat(timespec="seconds"), ""
    if before is not None:
        # An evaluation of this kind, such as that of a process before, has both already.
        told_since, told_known = before.metadata.get(_UNKNOWN_SINCE), before.metadata.get(_KNOWN)
        since = since if told_since is None else str(told_since.value)
        known = (
            f"{'held' if before.passed else 'failed'}: {before.description}"
            if told_known is None
            else str(told_known.value)
        )
    return dg.AssetCheckEvaluation(
        asset_key=key.asset_key,
        check_name=key.name,
        passed=False,
        severity=dg.AssetCheckSeverity.WARN if before is None or before.passed else before.severity,
        description=f"not known since {datetime.fromisoformat(since):%Y-%m-%d %H:%M} UTC, because nothing could be looked "
        f"at: {unknown.why}" + (f". Before, the check {known}" if known else ""),
        metadata={_UNKNOWN_SINCE: dg.MetadataValue.text(since), _KNOWN: dg.MetadataValue.text(known)},
        blocking=key.name in settings.dagster.checks.blocking,
    )


def _severity(verdict: Verdict) -> dg.AssetCheckSeverity:
    return dg.AssetCheckSeverity.ERROR if verdict.is_grave else dg.AssetCheckSeverity.WARN


def _metadata(verdict: Verdict) -> dict[str, dg.MetadataValue]:
    # Dagster draws numbers over time, also those of checks that hold.
    behind: dict[str, dg.MetadataValue] = (
        {"seconds behind": dg.MetadataValue.float(verdict.behind.total_seconds())}
        if verdict.behind is not None
        else {}
    )
    if verdict.holds:
        return behind
    rows = [
        dg.TableRecord({"what": offender.name, "is wrong": offender.what})
        for offender in verdict.offenders[:_MOST_OFFENDERS]
    ]
    return {
        **behind,
        "offenders": dg.MetadataValue.table(rows),
        "number of offenders": dg.MetadataValue.int(len(verdict.offenders)),
    }
