"""What happens when a setting is changed between two starts of an application that has landed records.

`headrace config --doc` writes a table of it into docs/reference/settings.md. `tests/duties/fleet/test_changed_settings.py`
makes each change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Takes(StrEnum):
    """When a changed setting takes effect. Sensors read the settings when the code server starts or is reloaded,
    runs when they start.
    """

    RUN = "next run"
    RELOAD = "reload"
    BOTH = "reload and next run"
    LATER = "later only"
    """It counts for what is made from then on; what is there already stays as it is."""
    REFUSED = "refused"
    """Nothing is read or written, and the leader's tick, the run or the command ends in a sentence that says
    the ways out."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    takes: Takes
    note: str = ""
    """What else a person should know, in a whole sentence."""


_RUN, _RELOAD, _BOTH = SettingChange(Takes.RUN), SettingChange(Takes.RELOAD), SettingChange(Takes.BOTH)
_NEW_TABLES = SettingChange(Takes.LATER, "It counts for tables that are made later.")
# An origin is compare-and-swapped into the table by its first commit, so that a setting which is
# changed afterwards can neither skip records nor read them twice.
_START = SettingChange(Takes.LATER, "A stream's start is decided once and kept in the lake table.")
_READING = SettingChange(
    Takes.BOTH,
    "Positions are the same for both. A consumer that is no longer needed costs money until it is deregistered.",
)
_CONSUMER = SettingChange(
    Takes.BOTH,
    "The leader registers the new one; `headrace consumer deregister` ends the former one, and its price.",
)
_BEAT = SettingChange(
    Takes.BOTH, "Start `headrace beat` first, or end it last; `headrace dev` does so itself."
)
_TARGET = SettingChange(
    Takes.RUN,
    "Rows that were parsed before stay as they are; `headrace window create --replace` parses them again.",
)
# Rows of another lease table are made anew from the lake table's positions, which alone decide
# where reading starts. So nothing lands twice, whatever the new table says.
_OTHER_TABLES = (
    "The application goes on at the lake table's positions, with new rows in DynamoDB; "
    "the former tables stay. Stop the former application first: while both run, each names the other one."
)

# Rows and positions name a stream by its name. A stream of the same name elsewhere would go on at
# the positions of this one.
_OTHER_REGION = SettingChange(
    Takes.REFUSED, "If the lake table has a stream of the same name in another region."
)
_OTHER_ACCOUNT = SettingChange(
    Takes.REFUSED, "If the lake table has a stream of the same name in another account."
)
_OTHER_PLACE = SettingChange(
    Takes.REFUSED,
    "As `aws.profile`. A stream of the same name and account counts as one that was deleted and created again.",
)
_OTHER_TABLE_PLACE = SettingChange(Takes.BOTH, _OTHER_TABLES)

CHANGES: Final[Mapping[str, SettingChange]] = {
    "application": SettingChange(
        Takes.BOTH,
        f"{_OTHER_TABLES} Dagster shows assets and partitions of the new name, without the former history.",
    ),
    "streams.N.name": SettingChange(
        Takes.REFUSED,
        "With streams_mode: single, if the lease rows are of another stream, and for a stream of the same "
        "name in another account or region. With multi a stream that is left out becomes a former stream.",
    ),
    "streams.N.initial_position": _START,
    "streams.N.timestamp": _START,
    "streams.N.on_data_loss": _RUN,
    "streams.N.retrieval": _READING,
    "streams.N.consumer": _CONSUMER,
    "streams.N.role": _OTHER_ACCOUNT,
    "streams.N.external_id": _BOTH,
    "streams_mode": SettingChange(Takes.REFUSED, "`headrace rekey` gives the lease rows the other form."),
    "discovery.prefix": SettingChange(
        Takes.RELOAD, "Streams that are no longer found become former streams."
    ),
    "discovery.tags": SettingChange(Takes.RELOAD, "Streams that are no longer found become former streams."),
    "discovery.tracker": SettingChange(
        Takes.RELOAD, "Streams that are no longer listed become former streams."
    ),
    "discovery.initial_position": _START,
    "discovery.timestamp": _START,
    "discovery.on_data_loss": _RUN,
    "discovery.retrieval": _READING,
    "discovery.consumer": _CONSUMER,
    "former_streams": _RELOAD,
    "former_streams_delete.N": _RELOAD,
    "former_streams_wait": _RELOAD,
    "workers.N.id": SettingChange(
        Takes.BOTH,
        "Stop the worker first; otherwise its leases move once it counts as dead. "
        "Its sensor and its runs get the new name.",
    ),
    "workers.N.spark.remote": _RUN,
    "workers.N.spark.master": _RUN,
    "workers.N.spark.conf": _RUN,
    "workers.N.spark.threads": _RUN,
    "workers.N.spark.tasks": _RUN,
    "coordination.lease_table": SettingChange(Takes.BOTH, _OTHER_TABLES),
    "coordination.worker_table": SettingChange(
        Takes.BOTH, "Change it in all deployments at once: they see each other in this table."
    ),
    "coordination.state_table": SettingChange(
        Takes.BOTH, "Change it in all deployments at once: the leader's lock is in this table."
    ),
    "coordination.create": _RELOAD,
    "coordination.billing": _NEW_TABLES,
    "coordination.read_capacity": _NEW_TABLES,
    "coordination.write_capacity": _NEW_TABLES,
    "coordination.point_in_time_recovery": _NEW_TABLES,
    "coordination.deletion_protection": _NEW_TABLES,
    "coordination.tags": _NEW_TABLES,
    "coordination.cleanup": _RELOAD,
    "assignment.strategy": _RELOAD,
    "assignment.graceful": _RELOAD,
    "assignment.max_leases": _RELOAD,
    "assignment.tolerance": _RELOAD,
    "assignment.cpu": _BOTH,
    "kcl.mode": SettingChange(
        Takes.BOTH,
        "Change it in all deployments at once; workers that take leases and a leader that assigns them don't mix.",
    ),
    "kcl.failover": SettingChange(
        Takes.BOTH, "Change it in all deployments at once, and before KCL's workers start."
    ),
    "kcl.beat": _BEAT,
    "kcl.heartbeat": SettingChange(
        Takes.BOTH,
        "Change it in all deployments at once: with two kinds of heartbeat, workers believe each other dead.",
    ),
    "kcl.allow_foreign_checkpoints": _BOTH,
    "kcl.layout": SettingChange(Takes.REFUSED, "If the application's tables have the other layout."),
    "kcl.steal_at_most": _RELOAD,
    "kcl.very_old_first": _RELOAD,
    "kcl.balance_every": _RELOAD,
    "kcl.max_throughput_kbps": _RELOAD,
    "kcl.max_utilisation": _BOTH,
    "kcl.network_mbps": _BOTH,
    "kcl.dampening": _RELOAD,
    "kcl.overshoot": _RELOAD,
    "kcl.ema_alpha": _RELOAD,
    "landing.table": SettingChange(
        Takes.REFUSED,
        "Unless it names the same table under a new name, or one that has the positions of these streams.",
    ),
    "landing.catalog": SettingChange(Takes.REFUSED, "Unless it reaches the same table."),
    "landing.state": SettingChange(Takes.REFUSED, "If positions are in files there. Move the files along."),
    "landing.home": SettingChange(Takes.REFUSED, "Unless the folder was moved, too."),
    "landing.aggregates": SettingChange(
        Takes.RUN,
        "Rows that landed before stay as they are; `headrace window create --unpack` takes their aggregates apart.",
    ),
    "parse.N.name": SettingChange(
        Takes.BOTH, "The typed table goes on where it is. Dagster shows an asset of the new name."
    ),
    "parse.N.table": SettingChange(
        Takes.RUN,
        "The new table gets all records that the lake table still has. The former table stays as it is.",
    ),
    "parse.N.format": _TARGET,
    "parse.N.schema": SettingChange(
        Takes.REFUSED,
        "If a column gets a type into which the table's can't be widened, or NOT NULL where the table has "
        "rows. New columns and wider types come with the next run; a column that is left out stays, "
        "and is null in new rows.",
    ),
    "parse.N.columns": _TARGET,
    "parse.N.most_columns": _RUN,
    "parse.N.schemas": _RUN,
    "parse.N.compression": _TARGET,
    "parse.N.inflated.bytes": _RUN,
    "parse.N.inflated.ratio": _RUN,
    "parse.N.most_values": _RUN,
    "parse.N.callable": _TARGET,
    "parse.N.message": _TARGET,
    "parse.N.stream": SettingChange(
        Takes.RUN, "A stream that is added comes from its oldest record in the lake table on."
    ),
    "parse.N.filter": _TARGET,
    "parse.N.unique.by": _TARGET,
    "parse.N.unique.within": _TARGET,
    "parse.N.into": SettingChange(
        Takes.REFUSED, "If the table is there: a table has either rows of all records or the latest ones."
    ),
    "parse.N.latest.key": SettingChange(
        Takes.REFUSED, "If the table is there: its rows are the latest ones of the former key."
    ),
    "parse.N.latest.delete_when": SettingChange(
        Takes.RUN, "What earlier records have deleted or left stays as it is."
    ),
    "parse.N.version": _RUN,
    "parse.N.stop_above": _RUN,
    "processors.N.name": SettingChange(
        Takes.BOTH, "The processor's table goes on where it is. Dagster shows an asset of the new name."
    ),
    "processors.N.callable": _RUN,
    "processors.N.command": _RUN,
    "processors.N.mode": SettingChange(
        Takes.RELOAD,
        "Positions aren't taken along: the other mode begins where its own table or lease rows say.",
    ),
    "processors.N.table": SettingChange(
        Takes.RUN,
        "The new table gets all records that the lake table still has, from an empty state on. The former table stays as it is.",
    ),
    "processors.N.application": SettingChange(
        Takes.RELOAD, "An application that is new begins where `streams.N.initial_position` says."
    ),
    "processors.N.consumer": _CONSUMER,
    "processors.N.failover": _RELOAD,
    "processors.N.beat": _BEAT,
    "processors.N.leases": _RELOAD,
    "processors.N.schema": SettingChange(
        Takes.REFUSED,
        "If a column gets a type into which the table's can't be widened, or NOT NULL where the table has "
        "rows. New columns and wider types come with the next run.",
    ),
    "processors.N.stream": SettingChange(
        Takes.RUN, "A stream that is added comes from its oldest record in the lake table on."
    ),
    "processors.N.parallelism": _RUN,
    "processors.N.records": _RUN,
    "processors.N.timeout": _RUN,
    "processors.N.shutdown_grace": _RUN,
    "processors.N.limits.memory": _RUN,
    "processors.N.limits.cpu": _RUN,
    "processors.N.on_error": _RUN,
    "processors.N.tries": _RUN,
    "processors.N.backoff": _RUN,
    "processors.N.as_amazon_kclpy": _RUN,
    "processors.N.imports": _RUN,
    "processors.N.version": _RUN,
    "upkeep.enabled": _BOTH,
    "upkeep.keep_snapshots": _BOTH,
    "upkeep.keep_for": _BOTH,
    "upkeep.orphans_after": _RUN,
    "upkeep.compact": _RUN,
    "upkeep.compact_after": _RUN,
    "upkeep.compact_to": _RUN,
    "upkeep.retention": SettingChange(
        Takes.RUN, "What was removed before doesn't come back with a longer one."
    ),
    "upkeep.keep_runs": _RELOAD,
    "dagster.group": _RELOAD,
    "dagster.key_prefix.N": SettingChange(
        Takes.RELOAD,
        "Dagster takes the assets for new ones: what it has shown of the former ones stays with their keys.",
    ),
    "dagster.owners.N": _RELOAD,
    "dagster.tags": _RELOAD,
    "dagster.complete_from": SettingChange(
        Takes.RELOAD,
        "Hours that are complete already are materialized in the next ticks, some hundred in each.",
    ),
    "dagster.freshness.warn": _RELOAD,
    "dagster.freshness.fail": _RELOAD,
    "dagster.checks.lag": _RELOAD,
    "dagster.checks.retention": _RELOAD,
    "dagster.checks.watermark": _RELOAD,
    "dagster.checks.quarantined": _RELOAD,
    "dagster.checks.proof": _RELOAD,
    "dagster.checks.blocking.N": _RELOAD,
    "dagster.backfill.by": SettingChange(
        Takes.RELOAD, "Dagster forgets which partitions were materialized; no table changes."
    ),
    "dagster.backfill.since": _RELOAD,
    "dagster.backfill.copies": _RELOAD,
    "dagster.schedules.upkeep": _RELOAD,
    "dagster.schedules.proof": _RELOAD,
    "dagster.pools": _RELOAD,
    "private_files": SettingChange(Takes.LATER, "Folders and files that are there keep their rights."),
    "aws.region": _OTHER_REGION,
    "aws.profile": _OTHER_ACCOUNT,
    "aws.endpoint": _OTHER_PLACE,
    "aws.client": _BOTH,
    "aws.kinesis.region": _OTHER_REGION,
    "aws.kinesis.endpoint": _OTHER_PLACE,
    "aws.kinesis.profile": _OTHER_ACCOUNT,
    "aws.kinesis.role": _OTHER_ACCOUNT,
    "aws.kinesis.external_id": _BOTH,
    **dict.fromkeys(
        (f"aws.dynamodb.{name}" for name in ("region", "endpoint", "profile", "role")), _OTHER_TABLE_PLACE
    ),
    "aws.dynamodb.external_id": _BOTH,
    **dict.fromkeys(
        (f"aws.cloudwatch.{name}" for name in ("region", "endpoint", "profile", "role", "external_id")), _BOTH
    ),
    "wire": _BOTH,
    "wave.records": _RUN,
    "wave.bytes": _RUN,
    "wave.seconds": SettingChange(Takes.BOTH, "Runs and sensors tell by it when a run hangs."),
    "wave.every": _RUN,
    "wave.shard_share": _RUN,
    "prices": _RUN,
    "times.worker_tick": _BOTH,
    "times.leader_tick": _RELOAD,
    "times.lease_duration": SettingChange(
        Takes.BOTH, "Change it in all deployments at once: they judge each other by it."
    ),
    "times.linger": _RUN,
    "times.idle": _RUN,
    "times.launch_grace": _BOTH,
    "times.dwell": _RELOAD,
    "times.handover_deadline": _RELOAD,
    "times.shard_sync": _RELOAD,
    "times.cleanup": _RELOAD,
    "times.assignment": _RELOAD,
    "times.probe": _RELOAD,
    "times.checkpoint": _RUN,
    "times.materialize": _RUN,
    "metrics.to": _BOTH,
    "metrics.namespace": SettingChange(Takes.BOTH, "What was sent before stays in the former namespace."),
    "metrics.level": _BOTH,
    "metrics.dimensions": _BOTH,
    "metrics.every": _BOTH,
    "metrics.most_series": _BOTH,
    "hooks": _BOTH,
}
"""What a change does, by the key of the setting, as `headrace config` prints it, with N for the entries of lists."""
