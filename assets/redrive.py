"""`<application>_redrive_<target>`: the job that parses the target's records in quarantine again, with the
present settings and code.

Records that can be parsed now move to the typed table, each once. The others stay in quarantine, with the new
reason. Nothing starts the job by itself, because only a person knows that the schema or the code was
corrected. Runs that parse new records may work meanwhile.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import dagster as dg

from headrace.assets.changes import by_redriving, redriven_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.names import resource_key, slug
from headrace.assets.parsed import note_waves
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.words.words import moment_of
from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.quarantine.redrive_plan import Selection

_CONFIG = {
    "shard": dg.Field(
        str,
        is_required=False,
        description="Only records of this shard: its name in Dagster, or such as orders/0 or "
        "shardId-000000000000.",
    ),
    "reason": dg.Field(
        str,
        is_required=False,
        description="Only records with this reason in the quarantine table. "
        "A part of its text is enough where no other reason has it.",
    ),
    "from": dg.Field(
        str,
        is_required=False,
        description="Only records that arrived at this time or later, such as 2026-01-31T12:00 (UTC).",
    ),
    "to": dg.Field(str, is_required=False, description="Only records that arrived before this time."),
    "dry_run": dg.Field(
        bool, default_value=False, description="Parse, tell what would move, and commit nothing."
    ),
}
"""Which records a run parses again, as its launchpad asks."""


def build_redrive(wiring: Wiring, target: ParseSettings) -> dg.JobDefinition:
    @dg.op(
        name=f"redrive_{slug(wiring.settings.application)}_{target.name}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(wiring.settings, "spark")},
        pool=wiring.settings.dagster.pools.get("parse"),
        config_schema=_CONFIG,
        description=f"Parse the records in {target.quarantine} again.",
    )
    def redrive(context: dg.OpExecutionContext) -> dg.Output[None]:
        config, done = context.op_config, list[Wave]()
        try:
            selection = Selection(
                config.get("shard"), config.get("reason"), _moment(config, "from"), _moment(config, "to")
            )
            redriving = wiring.targets.redriving(target, context.run.run_id)
            note_waves(context, redriving.portions(selection, dry_run=config["dry_run"]), done)
        except HeadraceError as error:
            raise RunFailed(str(error), redriven_metadata(done)) from error
        finally:
            # In `finally`: portions that landed before the error have changed both tables.
            for event in by_redriving(wiring.settings, target, done):
                context.log_event(event)
        return dg.Output(None, metadata=redriven_metadata(done))

    @dg.job(
        name=f"{slug(wiring.settings.application)}_redrive_{target.name}",
        description=__doc__,
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        redrive()

    return job


def _moment(config: Mapping[str, Any], name: str) -> datetime | None:
    if (text := config.get(name)) is None:
        return None
    try:
        return moment_of(text)
    except ValueError as error:
        raise BadSetting(f"the op's config has a wrong `{name}`: {error}. Nothing was parsed") from error
