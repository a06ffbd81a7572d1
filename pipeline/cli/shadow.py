"""`headrace shadow`: compares the lake table with the output of another consumer of the same stream."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli.options import add_config, add_window, load, window_of
from headrace.pipeline.cli.telling import tell

if TYPE_CHECKING:
    from headrace.pipeline.cli.options import Subparsers


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "shadow",
        description="Compare the lake table with what another consumer made of the same stream, "
        "such as a KCL application: files of JSON lines, CSV or Parquet, or an Iceberg table, "
        "with a row for each record. Records that are only on one side, twice, or have other payloads "
        "are named. Nothing is changed. The exit code is 0 if both sides are equal, "
        "and 1 if they differ or have nothing in common.",
    )
    add_config(parser)
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument(
        "--files",
        metavar="PATH",
        help="a file or a folder, on this machine or as s3://; names end in .jsonl, .json, .ndjson, .csv or .parquet",
    )
    side.add_argument(
        "--table",
        metavar="NAME",
        help="an Iceberg table in the catalog of the lake table, such as lake.orders",
    )
    parser.add_argument(
        "--stream", metavar="NAME", help="the stream that the other consumer has read (default: the only one)"
    )
    _add_columns(parser)
    add_window(parser)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        metavar="COLUMN",
        default="shard_id",
        help="the column with the shard's id (default: %(default)s)",
    )
    parser.add_argument(
        "--number",
        metavar="COLUMN",
        default="sequence_number",
        help="the column with the sequence number (default: %(default)s)",
    )
    parser.add_argument(
        "--sub",
        metavar="COLUMN",
        help="the column with the sub-sequence number of user records (default: none; all are 0)",
    )
    parser.add_argument(
        "--data", metavar="COLUMN", help="the column with the payload (default: payloads aren't compared)"
    )
    parser.add_argument(
        "--data-is",
        choices=("binary", "base64", "hex", "sha256"),
        default="binary",
        help="what the payload's column has: the bytes or the text itself (binary), its base64, "
        "its hexadecimal digits, or those of its SHA-256 (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.app.wiring import wire
    from headrace.pipeline.cli.beside.services import join_spark
    from headrace.pipeline.proof.other_side import OtherColumns, PayloadForm

    window = window_of(args)
    columns = OtherColumns(args.shard, args.number, args.sub, args.data, PayloadForm(args.data_is))
    loaded = load(args)
    join_spark(Path(loaded.name))
    wiring = wire(loaded.settings)
    try:
        shadowing = wiring.proofs.shadowing(columns, stream=args.stream, files=args.files, table=args.table)
        shadow = shadowing.run(window)
    finally:
        wiring.ports.close()
    tell(*shadow.lines())
    return 0 if shadow.is_equal else 1
