"""The common part of the assets whose tables are made of the lake table: typed tables and the tables of processors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import records_key, resource_key
from headrace.assets.shown import Layer, code_version, freshness, shown_metadata, table_name
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.typed.done_wave import Wave


def made_table(
    settings: Settings, key: dg.AssetKey, *, description: str, kinds: set[str], table: str, version: str
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """A decorator: the function that it decorates becomes the asset of a table that is made of the lake table."""
    return dg.asset(
        key=key,
        deps=[records_key(settings)],
        description=description,
        kinds=kinds,
        code_version=f"{code_version()}/{version}",
        metadata=table_name(table),
        freshness_policy=freshness(settings),
        # Where nothing was new there is no materialization, so that nothing that depends on the table is started.
        output_required=False,
        **shown_metadata(settings, Layer.TYPED),
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        pool=settings.dagster.pools.get("parse"),
    )


def waves_of_run(
    context: dg.AssetExecutionContext,
    waves: Callable[[], Iterable[Wave]],
    metadata: Callable[[Sequence[Wave]], dict[str, dg.MetadataValue]],
    *,
    nothing_new: str,
) -> list[Wave] | None:
    """The waves of one run, each written into the run's log. None where nothing was new, so that Dagster needs no
    materialization. `metadata`: makes the metadata of waves, including those before one that fails.
    """
    done: list[Wave] = []
    try:
        note_waves(context, waves(), done)
    except HeadraceError as error:
        raise RunFailed(str(error), metadata(done)) from error
    if any(wave.snapshot is not None or wave.settled for wave in done):
        return done
    context.log.info(nothing_new)
    return done if _is_expected(context) else None


def note_waves(
    context: dg.AssetExecutionContext | dg.OpExecutionContext, waves: Iterable[Wave], done: list[Wave]
) -> None:
    """Write each wave into the run's log. `done`: gets the waves, including those before one that fails."""
    for wave in waves:
        context.log.info(str(wave))
        for note in wave.notes:
            context.log.warning(note)
        done.append(wave)


def _is_expected(context: dg.AssetExecutionContext) -> bool:
    """Whether Dagster needs the materialization although nothing was new: it skips the assets after this one that a
    person has selected for the same run, and an asset without any looks as if it had no table."""
    selected_more = (context.run.asset_selection or frozenset()) - {context.asset_key}
    return bool(selected_more) or context.instance.get_latest_materialization_event(context.asset_key) is None
