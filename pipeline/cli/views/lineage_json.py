"""The JSON that `headrace lineage --json` prints about ranges. docs/use/looking.md describes the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.pipeline.cli.views.json_output import id_json, time_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.pipeline.app.adapters import Adapters
    from headrace.pipeline.core.ledger.ledger import LedgerEntry, Lost, Range
    from headrace.pipeline.core.shards.position import Position

    Entry = LedgerEntry | Lost


def lineage_document(
    args: argparse.Namespace, adapters: Adapters, table: str, entries: list[Entry], left_out: int
) -> dict[str, Any]:
    from headrace.pipeline.core.ledger.ledger import Lost

    losses = [entry for entry in entries if isinstance(entry, Lost)]
    answer: dict[str, Any] = {
        "table": table,
        "ranges": [
            record for entry in entries for record in _ranges_json(entry, is_typed=args.target is not None)
        ],
        "left_out": left_out,
        "lost": [{"snapshot": id_json(loss.snapshot), "why": loss.why} for loss in losses],
    }
    if args.window is None and args.target is None:
        state = adapters.table("lineage").load()
        answer["valid_through"] = [
            {
                "stream": stream.name,
                "stream_epoch": stream.epoch,
                "time": time_json(state.through.get(stream)),
            }
            for stream in sorted(state.positions.origins)
        ]
    return answer


def _ranges_json(entry: Entry, *, is_typed: bool) -> Iterator[dict[str, Any]]:
    from headrace.pipeline.lineage.cut import ranges_in

    for record_range in ranges_in(entry):
        answer = {"at": time_json(entry.at), "snapshot": id_json(entry.snapshot), **range_json(record_range)}
        yield {**answer, **_account_json(record_range.account)} if is_typed else answer


def range_json(record_range: Range) -> dict[str, Any]:
    return {
        "stream": record_range.key.stream.name,
        "stream_epoch": record_range.key.stream.epoch,
        "shard": record_range.key.shard_id,
        "kind": record_range.kind.value,
        "after": position_json(record_range.after),
        "upto": position_json(record_range.upto),
        "rows": record_range.rows,
        "records": record_range.records,
        "bytes": record_range.bytes,
        "unpacked": record_range.unpacked,
        "first_arrival": time_json(record_range.first_arrival),
        "last_arrival": time_json(record_range.last_arrival),
        "run": record_range.run,
        "files": list(record_range.files),
        "parents": [{"shard": parent.shard_id, "why": parent.why.value} for parent in record_range.parents],
        "children": list(record_range.upto.children),
        "why": record_range.stored_why,
    }


def position_json(position: Position | None) -> dict[str, Any] | None:
    if position is None:
        return None
    return {
        "sequence_number": id_json(position.sequence),
        "sub_sequence_number": position.sub,
        "ended": position.ended,
    }


def _account_json(why: str) -> dict[str, Any]:
    from headrace.pipeline.core.ledger.accounting import Accounting, read_accounting

    account = read_accounting(why) if why.startswith("{") else Accounting(0, 0)
    return {
        "parsed": account.parsed,
        "quarantined": account.quarantined,
        "dropped": dict(account.dropped),
        "version": account.version,
        "schema": account.schema,
        "code": account.code,
        "window": account.window or None,
    }
