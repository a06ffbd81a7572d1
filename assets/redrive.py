"""`<application>_redrive_<target>`: the job that parses the target's records in quarantine again, with the
present settings and code; and `<application>_process_again_<processor>`, which gives them to a processor once more.

Records that can be parsed now move to the typed table, each once. The others stay in quarantine, with the new
reason. Nothing starts the job by itself, because only a person knows that the schema or the code was
corrected. Runs that parse new records may work meanwhile.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import dagster as dg

from headrace.assets.changes import (
    Event,
    by_giving_again,
    by_redriving,
    given_again_metadata,
    redriven_metadata,
)
from headrace.assets.failure import RunFailed
from headrace.assets.made_table import note_waves
from headrace.assets.moments import time_in_config
from headrace.assets.names import resource_key, slug
from headrace.assets.one_op_job import job_of
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.quarantine.redrive import Redrives
from headrace.pipeline.typed.quarantine.redrive_plan import Selection

_CONFIG = {
    "shard": dg.Field(
        str,
        default_value="",
        description="Only records of this shard: its name in Dagster, or such as orders/0 or "
        "shardId-000000000000.",
    ),
    "reason": dg.Field(
        str,
        default_value="",
        description="Only records with this reason in the quarantine table. "
        "A part of its text is enough where no other reason has it.",
    ),
    "from": dg.Field(
        str,
        default_value="",
        description="Only records that arrived at this time or later, such as 2026-01-31T12:00 (UTC).",
    ),
    "to": dg.Field(str, default_value="", description="Only records that arrived before this time."),
    "dry_run": dg.Field(
        bool, default_value=False, description="Parse, tell what would move, and commit nothing."
    ),
}
"""Which records a run parses again, as its launchpad asks."""


def build_redrive(wiring: Wiring, made: ParseSettings | ProcessorSettings) -> dg.JobDefinition:
    again = (
        _Again.of_processor(wiring, made) if isinstance(made, ProcessorSettings) else _Again.of(wiring, made)
    )

    @dg.op(
        name=f"{again.verb}_{slug(wiring.settings.application)}_{made.name}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(wiring.settings, "spark")},
        pool=wiring.settings.dagster.pools.get("parse"),
        config_schema=_CONFIG,
        description=again.what,
    )
    def redrive(context: dg.OpExecutionContext) -> dg.Output[None]:
        config, done = context.op_config, list[Wave]()
        try:
            selection = Selection(
                config["shard"] or None,
                config["reason"] or None,
                time_in_config(config, "from"),
                time_in_config(config, "to"),
            )
            redriving = again.redriving(context.run.run_id)
            note_waves(context, redriving.portions(selection, dry_run=config["dry_run"]), done)
        except HeadraceError as error:
            raise RunFailed(str(error), again.metadata(done)) from error
        finally:
            # In `finally`: portions that landed before the error have changed both tables.
            for event in again.events(done):
                context.log_event(event)
        return dg.Output(None, metadata=again.metadata(done))

    return job_of(
        redrive,
        f"{slug(wiring.settings.application)}_{again.verb}_{made.name}",
        description=f"{again.what} {again.then} Start it after you have corrected the schema or the code.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """How records in one quarantine table are tried again."""

    verb: str
    """In the names of the job and its op: a target and a processor may have one name."""
    what: str
    then: str
    redriving: Callable[[str], Redrives]
    """The redrive, for the run with this id."""
    events: Callable[[Sequence[Wave]], Iterator[Event]]
    metadata: Callable[[Sequence[Wave]], dict[str, dg.MetadataValue]]

    @classmethod
    def of(cls, wiring: Wiring, target: ParseSettings) -> Self:
        return cls(
            verb="redrive",
            what=f"Parses the records in {target.quarantine} once more, with the present settings and code.",
            then=f"Records that can be parsed now move to {target.table}, each once; the others stay.",
            redriving=partial(wiring.targets.redriving, target),
            events=partial(by_redriving, wiring.settings, target),
            metadata=redriven_metadata,
        )

    @classmethod
    def of_processor(cls, wiring: Wiring, processor: ProcessorSettings) -> Self:
        return cls(
            verb="process_again",
            what=f"Gives the records in {processor.quarantine} to the processor once more, with its present code and state.",
            then=f"The rows of those that it processes come to {processor.table}, once; the others stay. No position moves.",
            redriving=partial(wiring.processors.redriving, processor),
            events=partial(by_giving_again, wiring.settings, processor),
            metadata=given_again_metadata,
        )
