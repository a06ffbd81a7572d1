"""`<application>/lineage`: which records of which shard went into which snapshot, as a table that stays when
snapshots expire.

Materializing this asset records the ledgers of the lake table's snapshots that aren't recorded yet. A person or a
schedule may do so at any time, also while runs land records.
"""

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import lineage_key, records_key, resource_key
from headrace.assets.shown import Layer, code_version, shown_metadata, table_name, totals
from headrace.pipeline.core.ledger.filter import RangeFilter
from headrace.pipeline.core.ledger.ledger import Lost
from headrace.pipeline.core.ledger.recording import Recorded
from headrace.pipeline.core.ledger.story import story_of
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.lineage.family_picture import drawn
from headrace.pipeline.lineage.family_svg import image, svg
from headrace.pipeline.ports.lineage import LineageTable
from headrace.pipeline.settings.model import Settings
from headrace.resources.lake import LakeResource

# Lost parts of the history that the metadata names. Dagster keeps the metadata of each materialization.
_MOST_LOST = 20


# With more ranges than this, no picture of the shards is made, because all ranges are read for it: a second
# for each 40,000.
_MOST_PICTURED = 20_000


def build_lineage(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(
        key=lineage_key(settings),
        deps=[records_key(settings)],
        description=f"Iceberg table `{settings.landing.table}_lineage`: which records of which shard went into which "
        f"snapshot of `{settings.landing.table}`. It stays when snapshots expire. Materializing it records what is "
        "new; a person or a schedule may do so at any time.",
        kinds={"iceberg"},
        code_version=code_version(),
        metadata=table_name(f"{settings.landing.table}_lineage"),
        **shown_metadata(settings, Layer.LANDING),
        required_resource_keys={resource_key(settings, "lake")},
    )
    def lineage(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        lake: LakeResource = getattr(context.resources, resource_key(settings, "lake"))
        table = lake.wiring.ports.lineage(f"run {context.run.run_id}")
        try:
            metadata = _metadata(table.record(), table)
        except HeadraceError as error:
            raise RunFailed(str(error), {}) from error
        name = f"{settings.landing.table}_lineage"
        return dg.MaterializeResult(metadata={**metadata, **totals(lake.wiring.ports, name)})

    return lineage


def _metadata(recorded: Recorded, table: LineageTable) -> dict[str, dg.MetadataValue]:
    metadata: dict[str, dg.MetadataValue] = {
        "ranges": dg.MetadataValue.int(recorded.ranges),
        "snapshots recorded": dg.MetadataValue.int(recorded.snapshots),
        "gaps": dg.MetadataValue.int(recorded.gaps),
        "newest snapshot": dg.MetadataValue.text(str(recorded.snapshot or "none")),
    }
    if 0 < recorded.ranges <= _MOST_PICTURED:
        picture = svg(drawn(story_of(table.entries())))
        metadata["shards"] = dg.MarkdownMetadataValue(image(picture, "the shards and their parents"))
    if recorded.gaps:
        # Lost parts alone: a filter without kinds takes no range.
        no_range = RangeFilter(kinds=frozenset())
        lost = [entry.why for entry in table.entries(no_range) if isinstance(entry, Lost)]
        metadata["lost parts"] = dg.MetadataValue.text("\n".join(lost[-_MOST_LOST:]))
    return metadata
