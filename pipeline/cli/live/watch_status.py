"""`headrace status --watch`: workers and shards on the whole screen, read again and again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.cli.live.screen import Screen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from headrace.pipeline.inspect.observation import Observation
    from headrace.pipeline.inspect.read import TableNames
    from headrace.pipeline.settings.blocks.aws import AwsSettings
    from headrace.pipeline.settings.model import Settings

_EVERY = timedelta(seconds=5)
_DONE = 0


def watch_status(
    args: argparse.Namespace, names: TableNames, aws: AwsSettings, settings: Settings | None = None
) -> int:
    """Show the application until Ctrl-C. `settings`: those of the application, whose streams tell how long they
    keep records.
    """
    from headrace.pipeline.aws.clients.clients import dynamodb_client
    from headrace.pipeline.clock import SystemClock
    from headrace.pipeline.inspect.looking import looks_at_tables

    looks = looks_at_tables(
        dynamodb_client(aws),
        names,
        every=args.period or _EVERY,
        cluster_by=args.cluster_by,
        clock=SystemClock(),
    )
    try:
        show_frame(looks, Screen(), _retention(settings))
    except KeyboardInterrupt:
        # The only way to end it, and so no failure.
        return _DONE
    return _DONE


def show_frame(
    looks: Iterator[Observation], screen: Screen, retention: Mapping[str | None, timedelta]
) -> None:
    from headrace.pipeline.inspect.frame import frame_of
    from headrace.pipeline.inspect.progress import lags_of, progress_of

    earlier = None
    with screen.opened():
        for observation in looks:
            shards = progress_of(observation, earlier=earlier, retention=retention)
            earlier = lags_of(observation, shards)
            columns, lines = screen.size
            screen.draw(frame_of(observation, shards, height=lines - 1, width=columns))


def _retention(settings: Settings | None) -> Mapping[str | None, timedelta]:
    """How long each stream keeps records; nothing of a stream that Kinesis doesn't tell about: only the forecast needs it."""
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.errors import HeadraceError

    kept: dict[str | None, timedelta] = {}
    if settings is None:
        return kept
    source = wire(settings).ports.source("status")
    for stream in settings.streams:
        try:
            facts = source.describe(stream.name)
        except HeadraceError:
            continue
        kept[facts.stream.serialized if settings.multi else None] = facts.retention
    return kept
