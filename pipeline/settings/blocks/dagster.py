"""The settings `dagster`: how Dagster shows the application, and what its checks tolerate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.pipeline.settings.choices import Period
from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessSettings:
    warn: timedelta | None = knob(
        doc="Dagster calls a table's asset late where nothing has landed in it for this long. Needs `freshness.fail`."
    )
    fail: timedelta | None = knob(
        doc="Dagster calls a table's asset overdue where nothing has landed in it for this long: the lake table's and "
        "each typed table's. Default: no freshness policy, because a stream may be quiet."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    lag: timedelta = knob(
        timedelta(minutes=10),
        doc="The check `lag` warns where records of a shard wait for longer than this.",
    )
    retention: timedelta = knob(
        timedelta(hours=6),
        doc="The check `retention_at_risk` fails where Kinesis would remove unread records of a shard within this "
        "time, at the rate at which the shard falls behind now.",
    )
    watermark: timedelta = knob(
        timedelta(hours=2),
        doc="The check `watermark_age` warns where the lake table states that it is complete up to a time that is "
        "longer ago than this. A stream at rest is asked once an hour, so choose more than that.",
    )
    quarantined: float = knob(
        0.01,
        doc="The check `quarantine_rate` warns where more than this part of the records of the last hour were set "
        "aside.",
    )
    proof: timedelta | None = knob(
        doc="The check `last_proof` warns where the last proof that held is older than this. Default: any age will "
        "do, and a table without a proof passes."
    )
    blocking: tuple[str, ...] = knob(
        factory=tuple,
        doc="Names of checks that block: an asset of yours whose automation condition has "
        "`all_deps_blocking_checks_passed` waits while one of them fails.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSettings:
    by: Period | None = knob(
        doc="hour or day: each typed table without `unique.by` and `into: latest` gets an asset <table>_again with a partition for each "
        "hour or day (UTC) of arrival. Materializing partitions, or a backfill of them, parses the records that "
        "arrived then again, by the present code. Needs `backfill.since`. Default: there are no such assets."
    )
    since: datetime | None = knob(
        doc="The first hour or day of these partitions begins at this time or before it, at a whole hour or day (UTC)."
    )
    copies: bool = knob(
        default=False,
        doc="The lake table gets an asset <application>/copies with the same partitions, too. Materializing some copies "
        "the records that arrived then into a table of their own.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    upkeep: str = knob(
        "23 */6 * * *",
        doc="When the job <application>_upkeep runs, as cron writes it, in UTC. never: Dagster has no such schedule. "
        "`upkeep.retention` acts in this job.",
    )
    proof: str = knob(
        "47 2 * * *",
        doc="When the job <application>_prove runs, as cron writes it, in UTC. It reads what has landed since the last "
        "proof. never: Dagster has no such schedule.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DagsterSettings:
    group: str | None = knob(
        doc="How the names of the assets' groups begin (<group>_landing, <group>_typed, ...). Default: the "
        "application's name."
    )
    key_prefix: tuple[str, ...] = knob(
        factory=tuple,
        doc="What the keys of the application's assets begin with: [raw, kinesis] makes `raw/kinesis/<application>/records`. "
        "Streams keep their key `kinesis/<stream>`, because applications share them.",
    )
    owners: tuple[str, ...] = knob(
        factory=tuple,
        doc="Owners of the application's assets: addresses (ann@example.com) or teams (team:data).",
    )
    tags: Mapping[str, str] = knob(factory=dict, doc="Tags of the application's assets, name: value.")
    complete_from: datetime | None = knob(
        doc="From this hour on Dagster has an asset `<application>/complete_hours` with a partition for each hour, "
        "which is materialized once the lake table has all records of that hour (2026-01-01T00:00:00Z). Default: "
        "there is no such asset."
    )
    freshness: FreshnessSettings = knob(
        factory=FreshnessSettings, doc="After which time without new records Dagster warns."
    )
    checks: CheckSettings = knob(
        factory=CheckSettings, doc="What the checks on the assets tolerate, and which of them block."
    )
    backfill: BackfillSettings = knob(
        factory=BackfillSettings, doc="Assets by which Dagster's backfills read landed records once more."
    )
    schedules: ScheduleSettings = knob(factory=ScheduleSettings, doc="When upkeep and proofs run.")
    pools: Mapping[str, str] = knob(
        factory=dict,
        doc="Names of Dagster's concurrency pools, by which Dagster limits how many runs work at once: of records, parse "
        "(redrives and processors, too), replay (windows and backfills), upkeep and proof. Default: no pool, but <application>_replay, "
        "which Dagster limits only where you say so.",
    )
