"""Count the records of the Iceberg table, shard by shard, with nothing but pyiceberg."""

from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

HOME = Path("headrace-data").resolve()


def main() -> None:
    catalog = SqlCatalog(
        "headrace", uri=f"sqlite:///{HOME / 'catalog.db'}", warehouse=str(HOME / "warehouse")
    )
    records = catalog.load_table("lake.orders").scan(selected_fields=("shard_id", "data")).to_arrow()
    by_shard = records.group_by("shard_id").aggregate([("data", "count")]).sort_by("shard_id")
    for shard in by_shard.to_pylist():
        print(f"{shard['shard_id']}: {shard['data_count']} records")
    print(f"{records.num_rows} records in lake.orders")


if __name__ == "__main__":
    main()
