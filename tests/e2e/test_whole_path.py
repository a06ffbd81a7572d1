"""The whole path in calm: what is put lands once, and Dagster shows of each shard what became of it."""

from tests.e2e.app import key, keys
from tests.e2e.conftest import MakeApp


def test_records_land_once_and_each_shard_tells_its_story(make_app: MakeApp):
    app = make_app()
    app.produce(40)
    app.settle()

    assert app.read().success

    app.check()
    assert app.statuses() == {"MATERIALIZED": keys(range(2))}
    told = {name: each.value for name, each in app.materializations(key(0))[0].metadata.items()}
    landed = next(each for each in app.ranges() if each.key.shard_id == key(0))
    assert told | {"lag (seconds)": 0.0} == {
        "records": 20,
        "bytes": landed.bytes,
        "lag (seconds)": 0.0,
        "from": "the start",
        "to": str(landed.upto),
        "parents": "none",
        "children": "none",
        "files": len(landed.files),
        "snapshot": str(app.table.load().snapshot),
    }


def test_a_reshard_lands_parents_before_children_and_shows_the_family(make_app: MakeApp):
    app = make_app()
    app.produce(20)
    app.split(0)
    app.produce(10, within=(0.0, 0.25))
    app.produce(10, within=(0.25, 0.5))
    app.settle()

    app.read_all()

    app.check()
    order = [each.key.shard_id for each in app.ranges()]
    assert order.index(key(0)) < min(order.index(key(2)), order.index(key(3)))
    parent = app.materializations(key(0))[0].metadata
    assert parent["children"].value == f"{key(2)}, {key(3)}"
    assert app.materializations(key(2))[0].metadata["parents"].value == key(0)
    assert app.lease(0).has_ended
    assert app.statuses() == {"MATERIALIZED": keys(range(4))}
