"""The options by which a window is chosen: which records it has, and what it is made for."""

import argparse
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import window_of

if TYPE_CHECKING:
    from headrace.pipeline.windows.make import Asked


def add_records(create: argparse.ArgumentParser) -> None:
    """Which records the window has, beside --from and --to."""
    create.add_argument(
        "--snapshot", type=int, metavar="ID", help="what this snapshot of the lake table landed"
    )
    create.add_argument("--run", metavar="ID", help="what this run landed")
    create.add_argument("--shard", metavar="ID", help="records of this shard, by --first and --last")
    create.add_argument(
        "--first", type=int, metavar="N", help="the sequence number of the first record, with --shard"
    )
    create.add_argument(
        "--last", type=int, metavar="N", help="the sequence number of the last record, with --shard"
    )
    create.add_argument("--stream", metavar="NAME", help="only shards of this stream")
    create.add_argument(
        "--from-stream",
        action="store_true",
        help="read from the stream what the lake table lacks (skipped and foreign ranges, "
        "days that the retention may have removed), as far as Kinesis still has it; "
        "all else is copied from the lake table",
    )


def add_purpose(create: argparse.ArgumentParser) -> None:
    """What the window is made for, where its records aren't to be copied."""
    create.add_argument(
        "--replace",
        metavar="TARGET",
        help="make the window for this target (its name under `parse` in the settings): "
        "`headrace window run` then parses these records again, by the settings and the code of that "
        "time, and replaces their rows in the target's typed table and quarantine table",
    )
    create.add_argument(
        "--processor",
        metavar="NAME",
        help="make the window for this record processor (its name under `processors` in the settings, with `mode: landed`): "
        "`headrace window run` then gives it these records as to a new one, with empty states, and its rows and states "
        "come into a table of the window's own. Its own table is neither read nor changed",
    )
    create.add_argument(
        "--into",
        metavar="TABLE",
        help="with --processor: the table for its rows, such as lake.totals_again, which isn't there yet. Default: the lake "
        "table's name with `_window_` and the id of the window",
    )
    create.add_argument(
        "--unpack",
        action="store_true",
        help="make the window for the lake table itself: `headrace window run` then takes aggregates of the "
        "Kinesis Producer Library apart that landed as one row each, into a row for each user record",
    )


def refuse_together(args: argparse.Namespace) -> None:
    """Refuse options of which each says for itself what the window is made for."""
    from headrace.pipeline.errors import BadSetting

    given = {
        "--unpack": args.unpack,
        "--replace": args.replace is not None,
        "--processor": args.processor is not None,
    }
    purposes = [option for option, is_given in given.items() if is_given]
    if args.from_stream and purposes:
        raise BadSetting(
            f"{purposes[0]} goes by records of the lake table, "
            "and --from-stream reads what the lake table lacks; nothing was made. Choose one"
        )
    if purposes == ["--unpack", "--replace"]:
        raise BadSetting(
            "a window is either for the lake table (--unpack) or for a typed table (--replace); "
            "nothing was made. Take the aggregates apart first, then replace the rows of the typed table "
            "by a second window of the same records"
        )
    if len(purposes) > 1:
        raise BadSetting(
            f"a window is made for one thing, and {' and '.join(purposes)} are given; nothing was made. "
            "Make a window for each of them, of the same records"
        )
    if args.into is not None and args.processor is None:
        raise BadSetting(
            "--into names the table for what a processor gives, and --processor is missing; nothing was made"
        )


def asked(args: argparse.Namespace) -> "tuple[Asked, str]":
    """What the options ask for, and the same for people."""
    from headrace.pipeline.errors import BadSetting
    from headrace.pipeline.windows.asking import by_time
    from headrace.pipeline.windows.make import Numbers, OfRun, OfSnapshot

    has_times = args.since is not None or args.until is not None
    if [has_times, args.snapshot is not None, args.run is not None, args.shard is not None].count(True) != 1:
        raise BadSetting(
            "a window is made either by --from and --to, or by --snapshot, or by --run, or by --shard; nothing was made"
        )
    if args.shard is None and (args.first is not None or args.last is not None):
        raise BadSetting("--first and --last need --shard; nothing was made")
    numbers = [bound for bound in (args.first, args.last) if bound is not None]
    if any(bound < 0 for bound in numbers) or numbers != sorted(numbers):
        given = [
            f"{name} is {n}" for name, n in (("--first", args.first), ("--last", args.last)) if n is not None
        ]
        raise BadSetting(
            f"{' and '.join(given)}; allowed: sequence numbers, --first not after --last; nothing was made"
        )
    of = f" of the stream {args.stream}" if args.stream else ""
    if args.snapshot is not None:
        return OfSnapshot(args.snapshot), f"what snapshot {args.snapshot} landed{of}"
    if args.run is not None:
        return OfRun(args.run), f"what run {args.run} landed{of}"
    if args.shard is not None:
        first = "its first record" if args.first is None else args.first
        last = "its last record" if args.last is None else args.last
        return Numbers(args.shard, args.first, args.last), f"shard {args.shard}{of} from {first} to {last}"
    arrivals = window_of(args, nothing="nothing was made")
    return arrivals, by_time(arrivals, args.stream)
