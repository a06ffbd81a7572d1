"""The status of each partition as Dagster's UI shows it."""

import dagster as dg
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value


def partition_statuses(
    instance: dg.DagsterInstance, partitions: dg.PartitionsDefinition, asset: dg.AssetKey
) -> dict[str, list[str]]:
    """The partition keys by status, from Dagster's status cache. A status that no partition has is left out.

    A partition that was materialized once and failed since counts as failed, as in the UI.
    """
    with dg.partition_loading_context(dynamic_partitions_store=instance):
        cached = get_and_update_asset_status_cache_value(instance, asset, partitions)
        assert cached is not None
        failed = set(cached.deserialize_failed_partition_subsets(partitions).get_partition_keys())
        running = set(cached.deserialize_in_progress_partition_subsets(partitions).get_partition_keys())
        done = set(cached.deserialize_materialized_partition_subsets(partitions).get_partition_keys())
    found = {"FAILED": failed, "IN PROGRESS": running, "MATERIALIZED": done - failed - running}
    return {status: sorted(keys) for status, keys in found.items() if keys}


def is_failed(instance: dg.DagsterInstance, asset: dg.AssetKey) -> bool:
    """Whether Dagster's UI shows an asset without partitions as failed: the newest run that was to materialize it failed, and the asset's
    newest materialization isn't of that run."""
    records = instance.get_asset_records([asset])
    if not records:
        return False
    entry = records[0].asset_entry
    run = instance.get_run_by_id(entry.last_run_id) if entry.last_run_id else None
    made = entry.last_materialization_record
    return (
        run is not None
        and run.status is dg.DagsterRunStatus.FAILURE
        and (made is None or made.run_id != run.run_id)
    )
