"""`<application>_replay`: the job that copies a window of landed records from the lake table into a table of
its own, or parses it again.

Its config has the id of a window that `headrace window create` has made, or says which records are meant: then
the run makes the window itself. After a run that was killed, the next one continues the window; a window that is
done gives nothing more. A window that was made with `--replace` (`replace` in the config) replaces rows of a
typed table by what today's parser makes of the same records. With `--processor` (`processor`), the records go to
a record processor, whose rows come into a table of the window's own. All of these only read the lake table. A
window that was made with `--unpack` takes aggregates apart in the lake table itself. For changes in a table with
an asset, the run writes an event on that asset.
"""

from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

from headrace.assets.changes import redone_metadata
from headrace.assets.failure import RunFailed
from headrace.assets.moments import time_in_config
from headrace.assets.names import replay_pool, resource_key, slug
from headrace.assets.one_op_job import job_of
from headrace.assets.redoing import first_run, redo
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.windows.asking import by_time, stream_of_target, window_between
from headrace.pipeline.windows.make import Asked, Numbers
from headrace.pipeline.windows.window import ReplayWindow
from headrace.pipeline.windows.windows import Windowing, WindowRequest
from headrace.pipeline.windows.wiring import WindowWiring

REPLAY_TAG = "headrace/replay"
"""Each run of the job has this tag, with the application as its value. By it Dagster can limit how many windows
are copied at once."""

_CONFIG: Final = {
    "window": dg.Field(
        str,
        default_value="",
        description="The id of a window, from `headrace window list`. Without it, say by the other fields which records are "
        "meant: the run then makes a window of them.",
    ),
    "from": dg.Field(
        str,
        default_value="",
        description="Records that arrived at this time or later, such as 2026-01-31T08:00 (UTC).",
    ),
    "to": dg.Field(str, default_value="", description="Records that arrived before this time."),
    "shard": dg.Field(
        str, default_value="", description="All records of this shard, such as shardId-000000000000."
    ),
    "stream": dg.Field(str, default_value="", description="Only records of this stream."),
    "replace": dg.Field(
        str,
        default_value="",
        description="The name of a target under `parse`: its rows of these records are parsed again, and the new ones take "
        "their place. Without it the records are copied into a table of their own.",
    ),
    "processor": dg.Field(
        str,
        default_value="",
        description="The name of a processor under `processors`, with `mode: landed`: it gets these records as a new one "
        "would, with empty states, and what it gives comes into a table of its own.",
    ),
    "into": dg.Field(
        str,
        default_value="",
        description="With `processor`: the table for its rows, such as lake.totals_again, which isn't there yet.",
    ),
    "from_stream": dg.Field(
        bool,
        default_value=False,
        description="Read from the stream what the lake table lacks, as far as Kinesis still has it.",
    ),
}


def build_replay(wiring: Wiring) -> dg.JobDefinition:
    settings = wiring.settings

    @dg.op(
        name=f"replay_{slug(settings.application)}",
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        config_schema=_CONFIG,
        pool=replay_pool(settings),
        description="Do what a window was made for: copy its records, replace their rows in a typed table, "
        "let a processor work on them, or take aggregates apart.",
    )
    def replay(context: dg.OpExecutionContext) -> dg.Output[None]:
        try:
            window = _window(context, wiring.windows)
            table = wiring.windows.table_of(window)
        except HeadraceError as error:
            raise RunFailed(str(error), {}) from error
        context.log.info("window %s: %s; %s", window.id, window.how, window.cost())
        waves = redo(context, wiring, window, table)
        return dg.Output(None, metadata=redone_metadata(window, table, waves))

    return job_of(
        replay,
        f"{slug(settings.application)}_replay",
        description=(
            "Copies landed records into a table of their own, or parses them again and replaces their rows in a typed table, or "
            "lets a processor work on them into a table of its own. "
            "Say by `from` and `to`, or by `shard`, which records are meant, or name a window that `headrace window create` has made. "
            "*Re-execute* goes on with a run that was stopped."
        ),
        tags={REPLAY_TAG: settings.application},
    )


def _window(context: dg.OpExecutionContext, windows: WindowWiring) -> ReplayWindow:
    """The window that the config names, or that it asks for. Raises HeadraceError."""
    config: Mapping[str, Any] = context.op_config
    by = first_run(context)
    windowing, request = windows.windowing(by), _request_of(config)
    if config["window"]:
        if request:
            raise BadSetting(
                f"the config names a window and has {', '.join(request)} beside it. Nothing was done; choose one of both"
            )
        return windowing.find(str(config["window"])).window
    if not {"from", "to", "shard"} & request.keys():
        raise BadSetting(
            f"the config of this job (ops.{context.op.name}.config) says neither `window` nor `from`, `to` or `shard`. Nothing was done; "
            "`headrace window create` makes one of other kinds, and `headrace window list` names those that there are"
        )
    # A retry of this run goes on with the window that its first attempt made, instead of making the
    # records once more into another table.
    kept = next((window for window in windowing.windows.all() if window.window.by == by), None)
    if kept is not None:
        return kept.window
    return _made(windowing, windows, request)


def _made(windowing: Windowing, windows: WindowWiring, request: Mapping[str, Any]) -> ReplayWindow:
    _refuse_together(request)
    stream, target, processor = request.get("stream"), request.get("replace"), request.get("processor")
    since, until = time_in_config(request, "from"), time_in_config(request, "to")
    if target is not None:
        stream = stream_of_target(windows.settings, target, stream)
    if processor is not None:
        stream = windows.stream_for_processor(processor, request.get("into", ""), stream)
    if "shard" in request:
        if since or until:
            raise BadSetting("the config has `shard` and a time. Nothing was done; choose one of both")
        of = f" of the stream {stream}" if stream else ""
        choice: Asked = Numbers(request["shard"], None, None)
        how = f"shard {request['shard']}{of} from its first record to its last record"
    else:
        choice = window_between(since, until)
        how = by_time(choice, stream)
    return windowing.create(
        WindowRequest(
            choice,
            how=how,
            stream=stream,
            target=target or "",
            processor=processor or "",
            into=request.get("into", ""),
            from_stream=bool(request.get("from_stream")),
        )
    )


def _refuse_together(request: Mapping[str, Any]) -> None:
    """Refuse fields of which each says for itself what the window is made for."""
    purposes = [f"`{name}`" for name in ("replace", "processor") if name in request]
    if purposes and request.get("from_stream"):
        raise BadSetting(
            f"the config has {purposes[0]}, which goes by records of the lake table, and `from_stream`, which reads what the "
            "lake table lacks. Nothing was done; choose one of both"
        )
    if len(purposes) > 1:
        raise BadSetting(
            f"the config has {' and '.join(purposes)}, and a window is made for one thing. Nothing was done; make a window "
            "for each of them, of the same records"
        )
    if "into" in request and "processor" not in request:
        raise BadSetting(
            "the config has `into`, which names the table for what a processor gives, and no `processor`. Nothing was done"
        )


def _request_of(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "window" and value}
