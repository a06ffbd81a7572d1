"""The settings `upkeep`: how the lake table is kept small."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from headrace.pipeline.settings.knob import knob


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepSettings:
    enabled: bool = knob(
        default=True,
        doc="Headrace expires the lake table's old snapshots, so that commits stay fast, "
        "and its upkeep job compacts data files and deletes files that nothing names any more. false: "
        "something else has to do all of it, and `retention` does nothing.",
    )
    keep_snapshots: int = knob(
        100,
        doc="The newest snapshots of the table that stay, however old they are: main can be rolled back to them.",
    )
    keep_for: timedelta = knob(
        timedelta(hours=1),
        doc="Snapshots younger than this stay, however many they are. "
        "Choose it longer than the longest break of a reader that reads the table's changes from "
        "snapshot to snapshot. Each snapshot that stays makes all commits slower.",
    )
    orphans_after: timedelta = knob(
        timedelta(days=3),
        doc="How long a file must have been seen without a name in the table's metadata before the upkeep "
        "job deletes it. It must be longer than the longest query of the table; at least a day.",
    )
    compact: bool = knob(
        default=True,
        doc="The upkeep job rewrites the small files of the waves as fewer and larger ones, "
        "on the Spark of the first worker. false: Headrace compacts nothing; "
        "choose it where another tool compacts the table.",
    )
    compact_after: timedelta = knob(
        timedelta(hours=1),
        doc="How long ago the newest record of a file must have arrived before the file is compacted.",
    )
    compact_to: int = knob(
        64 * 1024 * 1024,
        doc="The size up to which files are put together. A Spark task holds the rows of one such file in "
        "memory, uncompressed, and twice while it sorts them.",
        unit="bytes",
    )
    retention: timedelta | None = knob(
        doc="The upkeep job removes records that arrived longer ago than this from the table, "
        "a whole day (UTC) at a time: a day goes once all of it is older. "
        "Rows that other engines put into such a day go with it. Positions stay. Default: "
        "all records stay."
    )
    keep_runs: timedelta = knob(
        timedelta(days=7),
        doc="Runs of this application's jobs that are older than this are deleted from Dagster's storage, "
        "with their events and output, a few at each tick of the leader's sensor. "
        "A run stays as long as Dagster needs it to show the state of an asset or a partition. "
        "At least an hour.",
    )
