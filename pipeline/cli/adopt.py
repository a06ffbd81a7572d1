"""`headrace adopt` and `headrace give-back`: a KCL application comes over, and goes back."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pipeline.cli.options import add_config, duration, load
from pipeline.cli.telling import clean, tell
from pipeline.core.words import counted
from pipeline.errors import BadSetting, Unknown

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
    adopting.table.ensure()
    return adopt(adopting, settings, args, pause=time.sleep)


def adopt(
    adopting: "Adopting", settings: "Settings", args: argparse.Namespace, *, pause: Callable[[float], None]
) -> int:
    adoptions = [adopting.survey(name, timestamp=args.timestamp) for name in there(adopting, settings)]
    if args.json:
        print(json.dumps([_as_json(each) for each in adoptions], indent=2))
        return 0
    for each in adoptions:
        if each.stands:
            tell(f"{each.facts.stream.name}: passed over, {_why_passed_over(each)}")
    adoptions = [each for each in adoptions if not each.stands]
    if not adoptions:
        tell("there is nothing left to adopt; nothing was changed")
        return 0
    beating = _beating(adopting, args.watch, pause)
    # In a shared fleet what they read meanwhile becomes foreign ranges.
    if beating and not settings.is_shared:
        raise BadSetting(
            f"{', '.join(beating)} still moved lease rows: stop that application first; nothing was changed"
        )
    for each in adoptions:
        tell(*_lines(each))
    agree("adopt it", yes=args.yes)
    for each in adoptions:
        # as it is after the person's thinking
        adoption = adopting.survey(each.facts.stream.arn, timestamp=args.timestamp)
        landed = adopting.land(adoption, run="headrace adopt")
        tell(
            f"{adoption.facts.stream.name}: {counted(landed, 'position')} adopted; start Headrace, the leases come over by themselves"
        )
    return 0


def _why_passed_over(adoption: "Adoption") -> str:
    if adoption.read_on:
        return "the lake table has taken it over before; what KCL's workers have read since becomes foreign ranges"
    return "the lake table stands where its rows do already"


def _beating(adopting: "Adopting", watch: timedelta, pause: Callable[[float], None]) -> tuple[str, ...]:
    from pipeline.duties.adopt import moving

    before = adopting.leases.scan().leases
    tell(f"looking for {watch.total_seconds():.0f} s whether a worker of it still beats", file=sys.stderr)
    pause(watch.total_seconds())
    return moving(before, adopting.leases.scan().leases)


def adopting_of(settings: "Settings") -> "Adopting":
    from pipeline.duties.adopt import Adopting
    from resources.lake import LakeResource
    from resources.lease_tables import LeaseTablesResource
    from resources.stream import StreamResource

    source = StreamResource.of(settings).source()
    return Adopting(
        multi=settings.multi,
        leases=LeaseTablesResource.of(settings).leases(),
        source=source,
        table=LakeResource.of(settings).landing_table("adopt", source),
        beside_kcl=settings.is_shared,
    )


def there(adopting: "Adopting", settings: "Settings") -> Iterable[str]:
    """The streams that the settings name, then those that only lease rows know: found by prefix or tags, or former ones."""
    from pipeline.core.former import newest_lives
    from pipeline.core.stream import name_of_serialized

    yield from (stream.name for stream in settings.streams)
    for _, life in sorted(newest_lives(adopting.leases.scan().leases).items()):
        if settings.stream(name_of_serialized(life)) is not None:
            continue
        try:
            adopting.source.describe(life)
        except Unknown:
            tell(
                f"{life}: Kinesis has no such stream any more; its lease rows stay as they are",
                file=sys.stderr,
            )
        else:
            yield life


def _lines(adoption: "Adoption") -> Iterable[str]:
    stream = adoption.facts.stream
    yield f"{stream}: {counted(len(adoption.rows), 'lease row')}"
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
            f"  positions inside aggregated records can't be resumed yet: {counted(len(adoption.inside_aggregates), 'shard')} "
            f"({adoption.inside_aggregates[0].key.shard_id}, ...) will stop and say so"
        )


def _as_json(adoption: "Adoption") -> dict[str, object]:
    return {
        "stream": adoption.facts.stream.arn,
        "epoch": adoption.facts.stream.epoch,
        "stands": adoption.stands,
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
    if input(clean(f"{what}? [y/N] ")).strip().lower() not in {"y", "yes"}:
        raise BadSetting("nothing was changed")
