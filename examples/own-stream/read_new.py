"""Print the records that landed since the last call, in the order of their shards. The file `read-up-to.txt` remembers how far."""

import sys
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

HOME = Path("headrace-data").resolve()
MEMORY = Path("read-up-to.txt")
ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    ("stream", "ascending"),
    ("shard_id", "ascending"),
    ("sort_key", "ascending"),
]


def open_table() -> Table:
    catalog = SqlCatalog(
        "headrace", uri=f"sqlite:///{HOME / 'catalog.db'}", warehouse=str(HOME / "warehouse")
    )
    return catalog.load_table("lake.orders")


def read(table: Table, since: int | None, upto: int) -> pa.Table:
    if since is None:
        # Not an incremental scan without a start: it would leave out what landed in snapshots that have expired.
        return table.scan(snapshot_id=upto).to_arrow()
    new = table.incremental_append_scan(from_snapshot_id_exclusive=since, to_snapshot_id_inclusive=upto)
    return new.to_arrow()


def main() -> int:
    table = open_table()
    head = table.current_snapshot()
    if head is None:
        print("nothing has landed yet")
        return 0
    upto = head.snapshot_id
    since = int(MEMORY.read_text()) if MEMORY.exists() else None
    if since == upto:
        print("no new commit")
        return 0
    try:
        records = read(table, since, upto).sort_by(ORDER)
    except ValueError as error:
        print(
            f"{error}. Snapshot {since} has expired, or the table was rolled back. Nothing was read. What landed since then "
            "is found by the lineage table (docs/use/reading.md)",
            file=sys.stderr,
        )
        return 1
    for record in records.to_pylist():
        print(record["shard_id"], record["sequence_number"], record["data"].decode(errors="replace"))
    print(f"{records.num_rows} new records")
    # The file is written last of all: if this program dies before, it reads the same records again.
    MEMORY.write_text(str(upto))
    return 0


if __name__ == "__main__":
    sys.exit(main())
