"""The whole path without faults: each record lands once, and Dagster shows for each shard what happened to it."""

from tests.e2e.app import key, keys
from tests.e2e.conftest import MakeApp


def test_records_land_once_through_a_reshard_and_dagster_shows_the_metadata_of_each_shard(make_app: MakeApp):
    app = make_app()
    app.produce(20)
    app.split(0)
    app.produce(10, within=(0.0, 0.25))
    app.produce(10, within=(0.25, 0.5))
    app.settle()

    app.read_all()

    app.check()
    ranges = {each.key.shard_id: each for each in app.ranges()}
    order = [each.key.shard_id for each in app.ranges()]
    assert order.index(key(0)) < min(order.index(key(2)), order.index(key(3)))
    assert app.lease(0).has_ended
    assert app.statuses() == {"MATERIALIZED": keys(range(4))}
    for shard, parents, children in ((0, "none", f"{key(2)}, {key(3)}"), (2, key(0), "none")):
        told = {name: each.value for name, each in app.materializations(key(shard))[0].metadata.items()}
        landed = ranges[key(shard)]
        assert told.pop("lag (seconds)") >= 0  # type: ignore[operator]
        assert int(str(told.pop("snapshot"))) in app.snapshots()
        assert told.pop("dagster/row_count") in (20, 40)
        assert str(told.pop("dagster/uri")).endswith("/lake/records")
        for name in ("dagster/table_name", "dagster/relation_identifier"):
            assert told.pop(name) == app.settings.landing.table
        for name in ("table's data files", "table's size"):
            assert told.pop(name)
        assert told == {
            "records": 10,
            "rows": 10,
            "bytes": landed.bytes,
            "from": "the start",
            "to": str(landed.upto),
            "parents": parents,
            "children": children,
            "files": len(landed.files),
        }
