"""`headrace consumer list|register|deregister`: the consumers by which streams are read by enhanced fan-out."""

import argparse
import time
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell, tell_aside
from headrace.pipeline.cli.views.json_output import add_json, print_json, time_json
from headrace.pipeline.errors import BadSetting, Unknown, Unreachable

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

    from headrace.pipeline.aws.reading.consumers import KinesisConsumers
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.core.shards.stream import StreamId
    from headrace.pipeline.ports.consumers import Consumer
    from headrace.pipeline.settings.model import Settings

_LOOKS = 30
_EVERY = 1.0
"""Seconds between two looks whether a consumer is active."""


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "consumer", description="List, register or deregister consumers of enhanced fan-out."
    )
    actions = parser.add_subparsers(metavar="list|register|deregister", required=True)
    listing = actions.add_parser("list", help="print the consumers of the streams, whoever reads by them")
    add_json(listing)
    listing.set_defaults(act=_list)
    register = actions.add_parser("register", help="register a consumer, and wait until it is active")
    register.set_defaults(act=_register)
    deregister = actions.add_parser("deregister", help="end a consumer, and AWS's charge for it")
    deregister.add_argument(
        "--even-if-in-use",
        action="store_true",
        help="deregister it also while the settings or a KCL application of its name read by it",
    )
    deregister.set_defaults(act=_deregister)
    for action in (register, deregister):
        action.add_argument(
            "--name",
            metavar="NAME",
            help="the consumer's name (default: that of the settings, else the application's)",
        )
    for action in (listing, register, deregister):
        action.add_argument(
            "--stream", metavar="STREAM", help="a stream's name or ARN (default: the streams of the settings)"
        )
        add_config(action)


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.aws.clients.clients import kinesis_client

    settings = load(args).settings
    args.act(settings, kinesis_client(settings.aws), args)
    return 0


def _list(settings: "Settings", client: "KinesisClient", args: argparse.Namespace) -> None:
    from headrace.pipeline.aws.reading.consumers import KinesisConsumers

    consumers = KinesisConsumers(client)
    by_stream = {stream: consumers.of(stream) for stream in _streams(settings, client, args.stream)}
    if args.json:
        lines = [
            {
                "stream": stream.name,
                "name": consumer.name,
                "arn": consumer.arn,
                "status": consumer.status,
                "registered": time_json(consumer.registered),
                "used_by_these_settings": consumer.name in _names_in(settings, stream),
            }
            for stream, of_stream in by_stream.items()
            for consumer in of_stream
        ]
        print_json({"consumers": lines})
        return
    for stream, of_stream in by_stream.items():
        if not of_stream:
            tell(f"{stream.name}: no consumer")
        for consumer in of_stream:
            ours = ", these settings read by it" if consumer.name in _names_in(settings, stream) else ""
            tell(
                f"{stream.name}: {consumer.name} {consumer.status}, registered {consumer.registered:%Y-%m-%d %H:%M:%S}Z"
                f"{ours} ({consumer.arn})"
            )


def _register(settings: "Settings", client: "KinesisClient", args: argparse.Namespace) -> None:
    from headrace.pipeline.aws.reading.consumers import KinesisConsumers

    consumers = KinesisConsumers(client)
    for stream in _streams(settings, client, args.stream):
        names = (args.name,) if args.name else _names_in(settings, stream) or (settings.application,)
        for name in names:
            _register_one(consumers, stream, name)


def _register_one(consumers: "KinesisConsumers", stream: "StreamId", name: str) -> None:
    consumer: Consumer | None = consumers.register(stream, name)
    for _ in range(_LOOKS):
        if consumer is None or consumer.is_active:
            break
        time.sleep(_EVERY)
        consumer = consumers.find(stream, name)
    if consumer is None or not consumer.is_active:
        status = "gone" if consumer is None else consumer.status
        raise Unreachable(
            f"the consumer {name} of {stream.name} is {status} after {_LOOKS * _EVERY:.0f} s. It is registered, and AWS "
            "charges for it; `headrace consumer list` tells when it is ACTIVE"
        )
    tell(f"{stream.name}: the consumer {name} is ACTIVE, and AWS charges for it until it is deregistered")


def _deregister(settings: "Settings", client: "KinesisClient", args: argparse.Namespace) -> None:
    from headrace.pipeline.aws.reading.consumers import KinesisConsumers

    consumers = KinesisConsumers(client)
    for stream in _streams(settings, client, args.stream):
        name = args.name or next(iter(_names_in(settings, stream)), settings.application)
        consumer = consumers.find(stream, name)
        if consumer is None:
            tell(f"{stream.name}: there is no consumer {name}: nothing was deregistered")
            continue
        why = _why_in_use(settings, stream, name)
        if why is not None and not args.even_if_in_use:
            raise BadSetting(
                f"the consumer {name} of {stream.name} wasn't deregistered: {why}. Where you know that nobody reads by it, "
                "repeat the command with --even-if-in-use"
            )
        if why is not None:
            tell_aside(f"headrace: deregistering although {why}")
        consumers.deregister(consumer)
        tell(
            f"{stream.name}: the consumer {name} was deregistered; landed records and positions are as they were"
        )


def _why_in_use(settings: "Settings", stream: "StreamId", name: str) -> str | None:
    """Whether a fleet may be reading by the consumer: the end of a sentence. Kinesis doesn't tell who subscribes."""
    from headrace.pipeline.settings.processor_application import applications_of

    if name in _names_in(settings, stream):
        return (
            "these settings read the stream by the consumer. Set retrieval: polling, reload Dagster's code, and let the runs end "
            "that have begun before"
        )
    # Leases in a table of these settings' own are Headrace's, which reads by no consumer that they
    # don't name.
    if any(name == own.lease_table and not own.is_shared for own in applications_of(settings)):
        return None
    # By the lease table of that name, because Kinesis doesn't tell who subscribes, and a KCL fleet
    # whose consumer is gone marks all shards as ended (seen with 3.5.1).
    owners = _owners_in(settings, name)
    if owners:
        return (
            f"the table {name} has leases that {', '.join(owners[:3])} {'own' if len(owners) > 1 else 'owns'}, and KCL's "
            "workers read by a consumer of their application's name. When their consumer is gone, KCL 3.5.1 marks all "
            "shards as ended, and never reads the records that follow. Stop that fleet first"
        )
    return None


def _owners_in(settings: "Settings", table: str) -> list[str]:
    """Who owns an open lease in a table of this name, where there is such a table."""
    from botocore.exceptions import ClientError

    from headrace.pipeline.aws.clients.clients import asking_aws, dynamodb_client

    client = dynamodb_client(settings.aws)
    try:
        with asking_aws(f"the table {table}", passing={"ResourceNotFoundException", "ValidationException"}):
            pages = client.get_paginator("scan").paginate(
                TableName=table, ProjectionExpression="leaseOwner, checkpoint"
            )
            rows = [row for page in pages for row in page["Items"]]
    except ClientError:
        # There is no such table, or it has none of these columns.
        return []
    owners = {
        row["leaseOwner"].get("S", "")
        for row in rows
        if "leaseOwner" in row and row.get("checkpoint", {}).get("S") != "SHARD_END"
    }
    return sorted(owners - {""})


def _streams(settings: "Settings", client: "KinesisClient", named: str | None) -> list["StreamId"]:
    from headrace.pipeline.aws.reading.kinesis import KinesisSource

    names = [stream.name for stream in settings.streams] if named is None else [named]
    if not names:
        raise Unknown(
            "the settings name no stream, they find streams: name one by --stream. Nothing was changed"
        )
    source = KinesisSource(client)
    return [source.describe(name).stream for name in names]


def _names_in(settings: "Settings", stream: "StreamId") -> tuple[str, ...]:
    """The consumers by which the settings read a stream: that of the application which lands records, then those of processors
    that are applications of their own. None where they poll it or don't read it."""
    from headrace.pipeline.settings.processor_application import applications_of

    names = (_name_in(application, stream) for application in applications_of(settings))
    return tuple(name for name in names if name is not None)


def _name_in(application: "Settings", stream: "StreamId") -> str | None:
    entry = application.stream(stream.name)
    if entry is not None:
        return application.consumer_of(entry)
    return application.consumer_of(application.discovery) if application.discovery.is_asked_for else None
