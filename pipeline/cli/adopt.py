"""`headrace adopt` and `headrace give-back`: a KCL application comes over, and goes back."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, duration, load
from pipeline.errors import BadSetting

if TYPE_CHECKING:
    from pipeline.cli.options import Subparsers
    from pipeline.duties.adopt import Adopting, Adoption
    from pipeline.settings import Settings

_WATCH = timedelta(seconds=30)
"""KCL's workers renew every 3.3 seconds by default, and at a third of failoverTimeMillis with another one."""
_SHOWN = 10


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "adopt",
        description="Take over a stopped KCL application: the positions in its lease rows become the lake table's, in its first "
        "commit. The application keeps its name: set `application` (and table names) to KCL's.",
    )
    add_config(parser)
    parser.add_argument(
        "--watch",
        metavar="TIME",
        type=duration,
        default=_WATCH,
        help="how long to look whether any worker of it still beats (default: 30s; at least a third of failoverTimeMillis)",
    )
    parser.add_argument(
        "--timestamp",
        metavar="MOMENT",
        type=_moment,
        help="where rows at AT_TIMESTAMP start: as in KCL's configuration",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what would be adopted, as JSON, and stop there"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask")


def run(args: argparse.Namespace) -> int:
    settings = load(args).settings
    adopting = adopting_of(settings)
    return adopt(adopting, settings, args, pause=time.sleep)


def adopt(
    adopting: "Adopting", settings: "Settings", args: argparse.Namespace, *, pause: Callable[[float], None]
) -> int:
    from pipeline.duties.adopt import moving

    adoptions = [adopting.survey(s.name, timestamp=args.timestamp) for s in settings.streams]
    if args.json:
        print(json.dumps([_as_json(each) for each in adoptions], indent=2))
        return 0
    before = adopting.leases.scan().leases
    print(
        f"looking for {args.watch.total_seconds():.0f} s whether a worker of it still beats", file=sys.stderr
    )
    pause(args.watch.total_seconds())
    beating = moving(before, adopting.leases.scan().leases)
    if (
        beating and not settings.is_shared
    ):  # in a shared fleet what they read meanwhile becomes foreign ranges
        raise BadSetting(
            f"{', '.join(beating)} still moved lease rows: stop that application first; nothing was changed"
        )
    for each in adoptions:
        print(*_lines(each), sep="\n")
    agree("adopt it", yes=args.yes)
    for stream in settings.streams:
        adoption = adopting.survey(
            stream.name, timestamp=args.timestamp
        )  # as it is after the person's thinking
        landed = adopting.land(adoption, run="headrace adopt")
        print(
            f"{adoption.facts.stream.name}: {landed} positions adopted; start Headrace, the leases come over by themselves"
        )
    return 0


def adopting_of(settings: "Settings") -> "Adopting":
    from pipeline.duties.adopt import Adopting
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.stream import StreamResource

    source = StreamResource.of(settings).source()
    table = LakeResource.of(settings).landing_table("adopt", source)
    table.ensure()
    return Adopting(
        multi=settings.multi, leases=LeaseTablesResource.of(settings).leases(), source=source, table=table
    )


def _lines(adoption: "Adoption") -> Iterable[str]:
    stream = adoption.facts.stream
    yield f"{stream}: {len(adoption.rows)} lease rows"
    for each in adoption.said[:_SHOWN]:
        yield f"  {each.key.shard_id}: {each.why}"
    if len(adoption.said) > _SHOWN:
        yield f"  ... and {len(adoption.said) - _SHOWN} more (--json shows all)"
    if adoption.unproven:
        yield (
            f"  {len(adoption.unproven)} of these positions can't be read any more ({adoption.unproven[0].key.shard_id}, ...): "
            "records after them may be gone; these shards stop with that sentence until `headrace skip`, or `on_data_loss: continue`"
        )
    if adoption.inside_aggregates:
        yield (
            f"  {len(adoption.inside_aggregates)} positions lie inside aggregated records "
            f"({adoption.inside_aggregates[0].key.shard_id}, ...), which can't be resumed yet: these shards stop and say so"
        )


def _as_json(adoption: "Adoption") -> dict[str, object]:
    return {
        "stream": adoption.facts.stream.arn,
        "epoch": adoption.facts.stream.epoch,
        "unproven": [each.key.shard_id for each in adoption.unproven],
        "shards": [
            {
                "shard": each.key.shard_id,
                "position": str(each.position) if each.position else None,
                "why": each.why,
            }
            for each in adoption.said
        ],
    }


def _moment(text: str) -> datetime:
    from pipeline.settings_values import read_value

    try:
        moment: datetime = read_value(datetime, text)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} isn't a moment such as 2026-01-31T00:00:00Z") from error
    return moment


def agree(what: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadSetting(f"{what}? Say so with --yes; nothing was changed")
    if input(f"{what}? [y/N] ").strip().lower() not in {"y", "yes"}:
        raise BadSetting("nothing was changed")
