"""Writes events to Dagster about changes that commands and jobs made in tables: Dagster then shows them on the
tables' assets, and starts what depends on these.

Runs of the assets write their events themselves. Commands outside of Dagster, and other jobs, use this module.
Where nothing was changed there is no event.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dagster as dg

from headrace.assets.names import (
    parsed_key,
    partitions_name,
    processor_key,
    proof_key,
    quarantine_key,
    records_key,
    upkeep_key,
)
from headrace.assets.parsed import aside_metadata, parsed_metadata
from headrace.assets.processors import processor_metadata
from headrace.pipeline.core.shards.partition import partition_of
from headrace.pipeline.core.shards.stream import lease_key
from headrace.pipeline.duties.waves.report import Landed
from headrace.pipeline.proof.verdict import Proof
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.upkeep.upkeep import UpkeepReport
from headrace.pipeline.windows.window import ReplayWindow

Event = dg.AssetMaterialization | dg.AssetObservation

_int = dg.MetadataValue.int
_text = dg.MetadataValue.text


def leave_events(home: Path, settings: Settings, events: Sequence[Event]) -> None:
    """Write these events into the Dagster with this DAGSTER_HOME. They belong to no run."""
    if not home.is_dir():
        raise FileNotFoundError(f"there is no folder {home}")
    name = partitions_name(settings)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        keys = {event.partition for event in events if event.partition is not None}
        # Dagster takes an event of a partition that it doesn't know, and shows it nowhere.
        # Read only where an event has a partition: an application may have thousands of them.
        if missing := sorted(keys - set(instance.get_dynamic_partitions(name) if keys else ())):
            instance.add_dynamic_partitions(name, missing)
        for event in events:
            instance.report_runless_asset_event(event)


def by_parsing(settings: Settings, target: ParseSettings, waves: Sequence[Wave]) -> Iterator[Event]:
    changed = [wave for wave in waves if wave.snapshot is not None or wave.settled]
    if changed:
        yield dg.AssetMaterialization(parsed_key(settings, target), metadata=parsed_metadata(target, changed))
        if any(wave.aside for wave in changed):
            yield dg.AssetMaterialization(
                quarantine_key(settings, target), metadata=aside_metadata(target, changed)
            )


def by_processing(settings: Settings, processor: ProcessorSettings, waves: Sequence[Wave]) -> Iterator[Event]:
    changed = [wave for wave in waves if wave.snapshot is not None or wave.settled]
    if changed:
        metadata = processor_metadata(processor, changed)
        yield dg.AssetMaterialization(processor_key(settings, processor), metadata=metadata)


def by_redriving(settings: Settings, target: ParseSettings, portions: Sequence[Wave]) -> Iterator[Event]:
    """The event of a redrive. There is one even where no row came into the typed table, because the quarantine
    table has changed.
    """
    committed = [portion for portion in portions if portion.snapshot is not None]
    if committed:
        metadata = redriven_metadata(committed)
        key = parsed_key(settings, target)
        if any(portion.landed for portion in committed):
            yield dg.AssetMaterialization(key, metadata=metadata)
        else:
            # A materialization would start what depends on the typed table, which has no new row.
            yield dg.AssetObservation(key, metadata=metadata)
        if any(portion.rows > portion.aside for portion in committed):
            yield dg.AssetMaterialization(quarantine_key(settings, target), metadata=metadata)


def redriven_metadata(portions: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    mended = sum(portion.landed for portion in portions)
    aside = sum(portion.aside for portion in portions)
    tried = sum(portion.rows for portion in portions)
    return {
        "parsed again": _int(tried),
        "mended": _int(mended),
        "left quarantine": _int(tried - aside),
        "still set aside": _int(aside),
        "portions": _int(len(portions)),
    }


def by_giving_again(
    settings: Settings, processor: ProcessorSettings, portions: Sequence[Wave]
) -> Iterator[Event]:
    """The event of a redrive of a processor. There is one even where it made no row, because the processor's
    state may have changed.
    """
    committed = [portion for portion in portions if portion.snapshot is not None]
    if committed:
        metadata = given_again_metadata(committed)
        if any(portion.landed for portion in committed):
            yield dg.AssetMaterialization(processor_key(settings, processor), metadata=metadata)
        else:
            # A materialization would start what depends on the processor's table, which has no new row.
            yield dg.AssetObservation(processor_key(settings, processor), metadata=metadata)


def given_again_metadata(portions: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    return {
        "given again": _int(sum(portion.rows for portion in portions)),
        "processed": _int(sum(portion.landed for portion in portions)),
        "rows": _int(sum(portion.made for portion in portions)),
        "still set aside": _int(sum(portion.aside for portion in portions)),
        "portions": _int(len(portions)),
    }


def by_redoing(
    settings: Settings, window: ReplayWindow, table: str, waves: Sequence[Wave]
) -> Iterator[Event]:
    """The events of a window that replaces rows of a typed table, or takes aggregates of the lake table apart. The
    table that a window is copied into belongs to the window alone, and has no asset."""
    if not any(wave.snapshot is not None for wave in waves):
        return
    metadata = redone_metadata(window, table, waves)
    for target in settings.parse:
        if target.name == window.target:
            yield dg.AssetMaterialization(parsed_key(settings, target), metadata=metadata)
    if window.unpack:
        for unpacked in window.ranges:
            partition = partition_of(lease_key(unpacked.key, multi=settings.multi))
            yield dg.AssetMaterialization(records_key(settings), partition=partition, metadata=metadata)


def redone_metadata(window: ReplayWindow, table: str, waves: Sequence[Wave]) -> dict[str, dg.MetadataValue]:
    return {
        "window": _text(window.id),
        "range": _text(window.how),
        "table": _text(table),
        "rows": _int(sum(wave.rows for wave in waves)),
        "waves": _int(len(waves)),
        "notes": _text("; ".join(note for wave in waves for note in wave.notes) or "none"),
    }


def by_reading(
    settings: Settings, last: Mapping[str, Landed], counts: Mapping[str, tuple[int, int]]
) -> Iterator[Event]:
    """The events of `headrace consume`. `last`: what the last wave landed of each shard; `counts`: records and rows
    of each shard, over all waves. Both by lease key."""
    for key, landed in sorted(last.items()):
        records, rows = counts[key]
        # A shard without a new record gets no event: each materialization starts what depends on
        # the partition.
        if rows or landed.staged.upto.ended:
            metadata = {
                "records": _int(records),
                "rows": _int(rows),
                "to": _text(str(landed.staged.upto)),
                "by": _text("headrace consume"),
            }
            yield dg.AssetMaterialization(
                records_key(settings), partition=partition_of(key), metadata=metadata
            )


def by_upkeep(settings: Settings, report: UpkeepReport) -> Iterator[Event]:
    """The events of an upkeep: one on its own asset, and an observation of the lake table, because an upkeep adds no
    record."""
    # A materialization would say that the upkeep is done, and start what waits for it.
    kind = dg.AssetObservation if report.troubles else dg.AssetMaterialization
    yield kind(upkeep_key(settings), metadata=upkeep_metadata(report))
    if report.dropped or report.compacted.before:
        metadata = {
            "rows dropped by retention": _int(sum(file.rows for file in report.dropped)),
            "files compacted": _int(len(report.compacted.before)),
            "in short": _text("; ".join((*report.notes, str(report)))),
        }
        yield dg.AssetObservation(records_key(settings), metadata=metadata)


def upkeep_metadata(report: UpkeepReport) -> dict[str, dg.MetadataValue]:
    compacted = report.compacted
    before = compacted.before
    return {
        "in short": _text("; ".join((*report.notes, str(report)))),
        "files compacted": _int(len(before)),
        "files after": _int(compacted.files),
        "bytes compacted": _int(sum(file.size for file in before)),
        "bytes after": _int(compacted.bytes),
        "rows compacted": _int(sum(file.rows for file in before)),
        "groups left": _int(len(compacted.left)),
        "rows dropped by retention": _int(sum(file.rows for file in report.dropped)),
        "files deleted": _int(len(report.deleted)),
    }


def by_proving(settings: Settings, proof: Proof) -> Iterator[Event]:
    """The event of a proof of all that has landed: a materialization where nothing is wrong, else an observation."""
    kind = dg.AssetMaterialization if proof.holds else dg.AssetObservation
    yield kind(proof_key(settings), metadata=proof_metadata(proof))


def proof_metadata(proof: Proof) -> dict[str, dg.MetadataValue]:
    return {
        "in short": _text(str(proof)),
        "proof": dg.MarkdownMetadataValue("\n".join(("```", *proof.lines(), "```"))),
        "records proved": _int(proof.records if proof.holds else 0),
        "things not proved": _int(len(proof.unproved)),
        "mistakes": _int(sum(check.count for check in proof.all_checks)),
        "rows read": _int(sum(table.rows for table in (proof.lake, *proof.tables))),
    }
