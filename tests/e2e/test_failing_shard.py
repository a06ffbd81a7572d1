"""A failing shard doesn't delay the others. Dagster shows only this shard as failed, until it is read again."""

import pytest

from tests.e2e.app import App, key
from tests.e2e.conftest import MakeApp

pytestmark = pytest.mark.slow  # tests/assets tests the same with everything but Dagster in memory


def _break(app: App, shard: int) -> None:
    app.aws.inject(
        "error",
        operation="GetRecords",
        resource=app.name,
        shard=key(shard),
        code="AccessDeniedException",
        status=400,
    )


def test_only_the_failing_shards_partition_shows_as_failed_and_as_materialized_after_its_recovery(
    make_app: MakeApp,
):
    app = make_app(shards=3)
    app.produce(30)
    app.settle()
    _break(app, 1)

    failed = app.read()

    assert not failed.success
    assert app.statuses() == {"FAILED": [key(1)], "MATERIALIZED": [key(0), key(2)]}
    assert len(app.landed()) == 20
    app.aws.clear_faults()
    app.read_all()
    app.check()
    assert app.statuses() == {"MATERIALIZED": [key(0), key(1), key(2)]}


def test_only_the_failing_shards_partition_shows_as_failed_in_a_run_of_named_partitions(make_app: MakeApp):
    app = make_app()
    app.produce(20)
    app.settle()
    _break(app, 1)

    assert app.materialize(key(0)).success
    assert not app.materialize(key(1)).success

    assert app.statuses() == {"FAILED": [key(1)], "MATERIALIZED": [key(0)]}
    app.aws.clear_faults()
    assert app.materialize(key(1)).success
    assert app.statuses() == {"MATERIALIZED": [key(0), key(1)]}
    app.check()
