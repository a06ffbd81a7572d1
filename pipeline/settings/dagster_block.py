"""The settings `dagster`: how Dagster shows the application, and what its checks tolerate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

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
