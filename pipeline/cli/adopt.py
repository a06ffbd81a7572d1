"""`headrace adopt`: take over a KCL application that was stopped. `headrace give-back` is the way back."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, load
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.cli.views.json_output import print_json
from headrace.pipeline.core.words.words import clean, counted
from headrace.pipeline.errors import BadSetting, Unknown
from headrace.pipeline.settings.arguments import duration, moment

if TYPE_CHECKING:
    from headrace.pipeline.beside_kcl.adoption import Adopting, Adoption
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.model import Settings

# A KCL worker renews its leases every third of failoverTimeMillis: every 3.3 s by default.
_WATCH = timedelta(seconds=30)
_SHOWN = 10


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "adopt",
        description="Take over a stopped KCL application: the checkpoints in its lease rows become the positions "
        "of the lake table, in the table's first commit. "
        "Set `application` (and the table names) to those of the KCL application first.",
    )
    add_config(parser)
    parser.add_argument(
        "--watch",
        metavar="TIME",
        type=duration,
        default=_WATCH,
        help="how long to watch whether a KCL worker still renews its leases (default: 30s; choose at least a third of "
        "failoverTimeMillis)",
    )
    parser.add_argument(
        "--timestamp",
        metavar="MOMENT",
        type=moment,
        help="the start of shards whose lease row says AT_TIMESTAMP: the timestamp in KCL's configuration",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what would be adopted, as JSON, and change nothing"
    )
    parser.add_argument("--yes", action="store_true", help="don't ask for confirmation")


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire

    settings = load(args).settings
    adopting = wire(settings).decisions.adopting()
    _require_lease_table(adopting, settings)
    adopting.table.ensure(create=True)
    return adopt(adopting, settings, args, pause=time.sleep)


def adopt(
    adopting: "Adopting", settings: "Settings", args: argparse.Namespace, *, pause: Callable[[float], None]
) -> int:
    adoptions = [
        adopting.survey(name, timestamp=args.timestamp) for name in known_streams(adopting, settings)
    ]
    # The plan alone: nothing is asked and nothing written.
    if args.json:
        print_json({"streams": [_as_json(candidate) for candidate in adoptions]})
        return 0
    for candidate in adoptions:
        if candidate.is_done:
            tell(f"{candidate.facts.stream.name}: nothing to adopt, {_why_passed_over(candidate)}")
    adoptions = [candidate for candidate in adoptions if not candidate.is_done]
    if not adoptions:
        tell("no stream is left to adopt; nothing was changed")
        return 0
    beating = _beating(adopting, args.watch, pause)
    # Where KCL's workers stay (kcl.failover is set), whatever they read meanwhile becomes foreign ranges of the table.
    if beating and not settings.is_shared:
        raise BadSetting(
            f"the KCL workers {', '.join(beating)} still renew their leases: stop that application first; "
            "nothing was changed"
        )
    for candidate in adoptions:
        tell(*_lines(candidate))
    agree("adopt these positions", yes=args.yes)
    for candidate in adoptions:
        # Read anew: the rows may have changed while the person decided.
        adoption = adopting.survey(candidate.facts.stream.arn, timestamp=args.timestamp)
        landed = adopting.land(adoption, run="headrace adopt")
        tell(
            f"{adoption.facts.stream.name}: {counted(landed, 'position')} adopted; start Headrace, "
            "whose workers then take the leases"
        )
    return 0


def _require_lease_table(adopting: "Adopting", settings: "Settings") -> None:
    """Refuse to adopt from a table that isn't there. Whoever then let the leader make it would begin anew."""
    from headrace.pipeline.errors import TablesMissing

    try:
        adopting.leases.scan()
    except TablesMissing as error:
        raise Unknown(
            f"there is nothing to adopt: no lease table {settings.lease_table} is in this account and region. Nothing was made or "
            "changed; `application` has to be the name of the KCL application, or coordination.lease_table that of its table. "
            "Check aws.region and aws.endpoint, too"
        ) from error


def _why_passed_over(adoption: "Adoption") -> str:
    if adoption.kcl_read_on:
        return (
            "the lake table adopted this stream before; what KCL's workers have read since then becomes "
            "foreign ranges"
        )
    return "the lake table already has the positions of its lease rows"


def _beating(adopting: "Adopting", watch: timedelta, pause: Callable[[float], None]) -> tuple[str, ...]:
    from headrace.pipeline.beside_kcl.adoption import owners_that_renewed

    before = adopting.leases.scan().leases
    tell(
        f"watching the lease rows for {watch.total_seconds():.0f} s: does a KCL worker still renew them?",
        file=sys.stderr,
    )
    pause(watch.total_seconds())
    return owners_that_renewed(before, adopting.leases.scan().leases)


def known_streams(adopting: "Adopting", settings: "Settings") -> Iterable[str]:
    """The streams that the settings name, then other streams that have lease rows.

    The others were found by `discovery`, or are no longer in the settings.
    """
    from headrace.pipeline.core.shards.stream import name_of_serialized
    from headrace.pipeline.core.sharing.former_streams import newest_lives

    yield from (stream.name for stream in settings.streams)
    for _, life in sorted(newest_lives(adopting.leases.scan().leases).items()):
        if settings.stream(name_of_serialized(life)) is not None:
            continue
        try:
            adopting.source.describe(life)
        except Unknown:
            tell(
                f"{life}: Kinesis has no such stream any more; its lease rows are left as they are",
                file=sys.stderr,
            )
        else:
            yield life


def _lines(adoption: "Adoption") -> Iterable[str]:
    stream = adoption.facts.stream
    yield f"{stream}: {counted(len(adoption.rows), 'lease row')}"
    for shard in adoption.shards[:_SHOWN]:
        yield f"  {shard.key}: {shard.why}"
    if len(adoption.shards) > _SHOWN:
        yield f"  ... and {len(adoption.shards) - _SHOWN} more (--json shows all)"
    if adoption.unproven:
        yield (
            f"  {len(adoption.unproven)} of these positions can't be read any more ({adoption.unproven[0].key}, ...): "
            "records after them may have left the stream. Headrace won't read these shards until `headrace skip`, or "
            "`on_data_loss: continue`"
        )
    if adoption.inside_aggregates:
        yield (
            f"  {counted(len(adoption.inside_aggregates), 'shard')} ({adoption.inside_aggregates[0].key}, "
            "...) stopped inside an aggregate: the runs go on with the next user record, "
            "if `landing.aggregates` lets them take aggregates apart"
        )


def _as_json(adoption: "Adoption") -> dict[str, object]:
    return {
        "stream": adoption.facts.stream.arn,
        "epoch": adoption.facts.stream.epoch,
        "stands": adoption.is_done,
        "unproven": [shard.key.shard_id for shard in adoption.unproven],
        "shards": [
            {
                "shard": shard.key.shard_id,
                "position": str(shard.position) if shard.position else None,
                "why": shard.why,
            }
            for shard in adoption.shards
        ],
    }


def agree(what: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadSetting(f"{what}? There is no terminal to ask on: confirm with --yes; nothing was changed")
    if input(clean(f"{what}? [y/N] ")).strip().lower() not in {"y", "yes"}:
        raise BadSetting("nothing was changed")
