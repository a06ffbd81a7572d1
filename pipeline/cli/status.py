"""`headrace status`: shows the coordination tables that the settings name, or those of any KCL application, by
`headrace.pipeline.inspect`.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load, require_home
from headrace.pipeline.inspect.command import add_inspect_arguments, answer, place_arguments, table_names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.health.lake_table_look import LakeTableSeen
    from headrace.pipeline.inspect.finding import Finding
    from headrace.pipeline.inspect.observation import Observation
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.lake.spark.server.facts import LocalServer
    from headrace.pipeline.settings.blocks.discovery import DiscoverySettings
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.settings.model import Settings, StreamSettings

_STATES = {True: "is in its catalog", False: "isn't in its catalog", None: "couldn't be looked at"}


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "status",
        description="Show which worker reads which shard, from the coordination tables: "
        "those of the application in the settings or, with --table, those of any KCL application (1.x "
        "to 3.5), for which no settings are needed. With settings, also whether the lake table is there, and where their processors stand. The command writes nothing.",
    )
    add_config(parser)
    add_inspect_arguments(parser, table_is_required=False)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="fill the screen with workers and shards, and look again every 5 s, or as often as --for says, until Ctrl-C. "
        "Without a terminal the looks are printed one after the other",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.settings.blocks.aws import AwsSettings

    if args.watch:
        return _watch(args)
    if args.table is not None:
        return answer(args, table_names_in(args), AwsSettings(**place_arguments(args)))
    from headrace.pipeline.health.lake_table_look import LakeTableLook

    loaded = load(args)
    settings, look = loaded.settings, LakeTableLook(loaded.settings)
    servers = _spark_servers(loaded)
    seen = look.seen()
    reading, processors = list(_reading(settings)), list(_processors(settings, seen))
    return answer(
        args,
        _names(settings, args),
        settings.aws.at(**place_arguments(args)),
        judge=partial(_judge, settings, seen),
        lines=[
            *_told(reading),
            f"lake table {settings.landing.table}: {_STATES[seen.is_there]}",
            *(line for lines, _ in processors for line in lines),
            *(f"local Spark server: {server}" for server in servers),
        ],
        facts={
            "reading": reading,
            "lake_table": {
                "table": settings.landing.table,
                "is_there": seen.is_there,
                "why": seen.why or None,
            },
            "processors": [fact for _, fact in processors],
            "spark_servers": [server.as_json() for server in servers],
        },
    )


def _reading(settings: "Settings") -> "Iterator[dict[str, str | None]]":
    """How each stream is read, by the settings. The last entry is of the streams that discovery finds."""
    from headrace.pipeline.settings.stream_names import name_in

    named: list[tuple[str, StreamSettings | DiscoverySettings]] = [
        (name_in(stream.name), stream) for stream in settings.streams
    ]
    if settings.discovery.is_asked_for:
        named.append(("others", settings.discovery))
    for name, stream in named:
        yield {
            "stream": name,
            "retrieval": stream.retrieval.value,
            "consumer": settings.consumer_of(stream),
        }


def _processors(settings: "Settings", seen: "LakeTableSeen") -> "Iterator[tuple[list[str], dict[str, Any]]]":
    """Where each processor stands: lines for people, and the same as JSON. Neither Spark nor Kinesis is asked."""
    if not settings.processors:
        return
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.processor_application import application_status
    from headrace.pipeline.cli.views.processor_views import standing_json, standing_lines
    from headrace.pipeline.errors import HeadraceError, Unreachable
    from headrace.pipeline.processors.standing import standing_of
    from headrace.pipeline.settings.targets import landed_processors, processor_applications

    for processor in processor_applications(settings):
        yield application_status(settings, processor)

    ports = wire(settings).ports
    try:
        for processor in landed_processors(settings):
            try:
                require_home(settings)
                if seen.is_there is None:
                    # The same catalog: asking it again could take minutes.
                    raise Unreachable("the lake table couldn't be looked at")
                standing = standing_of(processor, ports.processing(processor, "status"))
            except HeadraceError as error:
                # The leases are told of all the same.
                sentence = f"processor {processor.name}: its table can't be read: {error}"
                yield [sentence], {"processor": processor.name, "error": str(error)}
            else:
                yield list(standing_lines(standing)), standing_json(standing)
    finally:
        ports.close()


def _told(reading: "Iterable[Mapping[str, str | None]]") -> "Iterator[str]":
    for stream in reading:
        by = "" if stream["consumer"] is None else f" by the consumer {stream['consumer']}"
        yield f"stream {stream['stream']}: {stream['retrieval']}{by}"


def _names(settings: "Settings", args: argparse.Namespace) -> "TableNames":
    from headrace.pipeline.inspect.read import TableNames

    return TableNames(
        lease_table=settings.lease_table,
        worker_table=args.worker_table or settings.worker_table,
        state_table=args.state_table or settings.state_table,
    )


def _watch(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.live.watch_status import watch_status
    from headrace.pipeline.errors import BadSetting
    from headrace.pipeline.settings.blocks.aws import AwsSettings

    if args.json or args.csv or args.strict or args.max_behind is not None:
        raise BadSetting(
            "--watch goes on until Ctrl-C, so --json, --csv, --strict and --max-behind can't go with it; nothing was read"
        )
    if args.table is not None:
        return watch_status(args, table_names_in(args), AwsSettings(**place_arguments(args)))
    settings = load(args).settings
    return watch_status(args, _names(settings, args), settings.aws.at(**place_arguments(args)), settings)


def _judge(settings: "Settings", seen: "LakeTableSeen", observation: "Observation") -> "Iterator[Finding]":
    yield from _lake_table(settings, seen, observation)
    yield from _forms(settings, observation)
    yield from _former_streams(settings, observation)
    yield from _beater(settings, observation)


def _lake_table(
    settings: "Settings", seen: "LakeTableSeen", observation: "Observation"
) -> "Iterator[Finding]":
    """What is wrong with the lake table. That it isn't made yet is nothing wrong."""
    from headrace.pipeline.core.order.first_start import why_not_make_table
    from headrace.pipeline.inspect.finding import Finding

    name = settings.landing.table
    if seen.is_there is False:
        gone = why_not_make_table(name, observation.last.leases)
        if gone is not None:
            yield Finding("lake-table-gone", gone, needs_person=True)
    elif seen.is_there:
        if seen.why:
            yield Finding("lake-table-unreadable", f"the lake table {name}: {seen.why}", needs_person=True)
    else:
        # This shell's role may have no right to look, while the workers' has one.
        yield Finding("lake-table-unseen", f"the lake table {name} couldn't be looked at: {seen.why}")


def _beater(settings: "Settings", observation: "Observation") -> "Iterator[Finding]":
    from headrace.pipeline.beside_kcl.beaten import REMEDY, why_no_beater, workers_without_beater
    from headrace.pipeline.inspect.finding import Finding

    silent = workers_without_beater(settings, observation.last.workers, observation.last.read_at)
    if silent:
        yield Finding(
            "no-beater",
            f"{why_no_beater(settings.application, silent)}: {REMEDY}",
            needs_person=True,
            names=silent,
        )


def _forms(settings: "Settings", observation: "Observation") -> "Iterator[Finding]":
    """Lease rows whose keys don't have the form of `streams_mode`."""
    from headrace.pipeline.core.leases.lease_form import COMMAND, of_other_form, why_other_mode
    from headrace.pipeline.core.words.words import counted
    from headrace.pipeline.inspect.finding import Finding

    rows_of_other_form = of_other_form(observation.last.leases, multi=settings.multi)
    if not rows_of_other_form:
        return
    names = tuple(row.key for row in rows_of_other_form)
    if (why := why_other_mode(observation.last.leases, multi=settings.multi)) is not None:
        yield Finding("other-mode", why, needs_person=True, names=names)
        return
    yield Finding(
        "rows-left-over",
        f"{counted(len(rows_of_other_form), 'lease row')} ({names[0]}{', ...' if len(names) > 1 else ''}) in the form "
        f"of another streams_mode than {settings.streams_mode}: nobody reads by them, "
        f"and `{COMMAND}` removes them",
        needs_person=True,
        names=names,
    )


def _former_streams(settings: "Settings", observation: "Observation") -> "Iterator[Finding]":
    """Streams with lease rows that the settings don't ask for. Which ones a discovery finds isn't known here."""
    from headrace.pipeline.core.shards.partition import read_name
    from headrace.pipeline.inspect.finding import Finding

    if not settings.multi or settings.discovery.is_asked_for:
        return
    streams = {read_name(row.key).stream for row in observation.last.leases if not row.has_ended}
    former = tuple(sorted(name for name in streams if name and name not in settings.stream_names))
    if former:
        yield Finding(
            "former-streams",
            f"the settings don't name {', '.join(former)} any more, and Headrace reads on: stopping by mistake would be "
            f"worse. former_streams is {settings.former_streams}: see docs/use/workers-and-streams.md, Several streams",
            names=former,
        )


def _spark_servers(loaded: "Loaded") -> "list[LocalServer]":
    """The local Spark servers of this project on this host; one for each environment in which it is used."""
    from headrace.pipeline.lake.spark.server.facts import servers_of_user
    from headrace.pipeline.lake.spark.session import is_local, key_of_server, server_folder

    # Looking for servers starts `ps`, which is for nothing where Spark is elsewhere.
    if not any(is_local(worker.spark) for worker in loaded.settings.workers):
        return []
    file = Path(loaded.name)
    key, folder = key_of_server(settings=file), server_folder(settings=file)
    return [server for server in servers_of_user() if server.is_own(folder) or server.is_of_project(key)]
