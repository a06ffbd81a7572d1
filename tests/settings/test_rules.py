"""Settings that don't fit together are refused, and those that just fit are accepted."""

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings

HEAD = "application: my-app\nstreams:\n  - name: my-stream\n"
ARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"


def parse(text: str, *, head: str = HEAD) -> Settings:
    return parse_settings(head + text, {}, name="h.yaml").settings


def worker(**fields: str) -> str:
    return "workers: [{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}]"


def target(**fields: str) -> str:
    given = {"name": "orders", "table": "lake.orders", "schema": "id INT"} | fields
    return "parse:\n  - {" + ", ".join(f"{name}: {value}" for name, value in given.items()) + "}"


JOINS_A_FLEET = "kcl: {failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}"
CONFLICTING = [
    (
        "  - name: second",
        "h.yaml:2: streams has 2 entries, and streams_mode is single",
    ),
    ("    initial_position: AT_TIMESTAMP", "streams.0.timestamp is missing, and AT_TIMESTAMP needs it"),
    (
        "    timestamp: 2026-01-31T00:00:00Z",
        "h.yaml:4: streams.0.timestamp is given, but initial_position is TRIM",
    ),
    ("workers: []", "h.yaml:4: workers is an empty list"),
    (
        "workers: [{id: a}, {id: b}, {id: a}]",
        "h.yaml:4: workers.2.id is 'a', which is another worker's id, too",
    ),
    (worker(id="Leader"), "workers.0.id is 'Leader', which is a key of KCL's own rows"),
    (worker(id="Migration3.0"), "which is a key of KCL's own rows"),
    (worker(id="TableMigration3.5"), "which is a key of KCL's own rows"),
    (worker(id="shardId-000000000001"), "which is a key of KCL's own rows"),
    (worker(id="'1234:s:17:shardId-000000000001'"), "which is a key of KCL's own rows"),
    (worker(id="'a,b'"), "workers.0.id is 'a,b'; allowed: text without spaces, commas and slashes"),
    (worker(id="a/b"), "workers.0.id is 'a/b'"),
    (worker(id="a b"), "workers.0.id is 'a b'"),
    (worker(id='"a\\u0007b"'), "workers.0.id is 'a\\x07b'"),
    (
        worker(id="a", spark="{remote: 'local[2]', master: yarn}"),
        "workers.0.spark has both remote and master",
    ),
    (worker(id="a", spark="{remote: yarn}"), "workers.0.spark.remote is 'yarn'; allowed: sc://host:port"),
    (target(name="a-b"), "parse.0.name is 'a-b'; allowed: letters, digits and _"),
    (target(table="lake.records"), "parse.0.table is 'lake.records', and lake.records is another table"),
    (target(table="lake.records_lineage"), "lake.records_lineage is another table"),
    (target(table="orders"), "parse.0.table is 'orders'; allowed: a namespace and a name"),
    (target(format="callable"), "parse.0.callable is None; allowed with format: callable"),
    (target(format="callable", callable="orders"), "parse.0.callable is 'orders'"),
    (target(callable="'a.b:c'"), "parse.0.callable is given, but format is json"),
    (target(format="protobuf", schema="o.desc"), "parse.0.message is missing; needed with format: protobuf"),
    (target(message="a.B"), "parse.0.message is given, but format is json"),
    (
        target(format="protobuf", message="a.B"),
        "parse.0.schema doesn't fit format: protobuf; allowed: a file that ends",
    ),
    (target(format="avro"), "parse.0.schema doesn't fit format: avro; allowed: a schema in JSON"),
    (
        target(schema="o.avsc"),
        "parse.0.schema doesn't fit format: json; allowed: columns as Spark writes them",
    ),
    ("parse: [{name: orders, table: lake.orders}]", "parse.0.schema is missing; needed with columns: given"),
    (target(stream=ARN), f"parse.0.stream is '{ARN}'; allowed: the stream's name (orders)"),
    (
        target(format="avro", schema="o.avsc", columns="evolving"),
        "parse.0.columns is evolving, and format is",
    ),
    (target(most_columns="20000"), "parse.0.most_columns is 20000; allowed: 1 to 10000"),
    (
        target(format="avro-glue", schema="o.avsc"),
        "parse.0.schemas is missing; needed with format: avro-glue",
    ),
    (target(schemas="registry"), "parse.0.schemas is given, but format is json"),
    (target(inflated="{bytes: 1GiB}"), "parse.0.inflated.bytes is 1073741824; allowed: 1 to 268435456"),
    (target(most_values="200000000"), "parse.0.most_values is 200000000; allowed: 1 to 100000000"),
    (target(inflated="{ratio: 2000000}"), "parse.0.inflated.ratio is 2000000; allowed: 1 to 1000000"),
    (target(unique="{by: id}"), "parse.0.unique.within is missing; needed with unique.by"),
    (target(unique="{within: 1h}"), "parse.0.unique.by is missing; needed with unique.within"),
    (
        target(unique="{by: 'id, id', within: 1h}"),
        "parse.0.unique.by is 'id, id'; allowed: columns of the schema, each once",
    ),
    (
        target(unique="{by: 'id,', within: 1h}"),
        "parse.0.unique.by is 'id,'; allowed: columns of the schema, each once",
    ),
    (target(stop_above="1.5"), "parse.0.stop_above is 1.5; allowed: a fraction"),
    (target() + target()[len("parse:") :], "parse.1.name is 'orders'"),
    (
        "coordination: {lease_table: a/b}",
        "coordination.lease_table is 'a/b' (3 characters); allowed: 3 to 255",
    ),
    (
        "coordination: {worker_table: my-app}",
        "coordination.lease_table is 'my-app', and so is coordination.worker_table",
    ),
    (
        "kcl: {failover: 10s, heartbeat: lease, allow_foreign_checkpoints: true}",
        "kcl.failover is 10s; allowed: 20s or more: set the fleet's failoverTimeMillis to 20000",
    ),
    (
        "kcl: {failover: 30000, heartbeat: lease, allow_foreign_checkpoints: true}",
        "allowed: 1h or less. KCL's failoverTimeMillis is in milliseconds: write 30s for its 30000",
    ),
    (
        "kcl: {failover: 20s, allow_foreign_checkpoints: true}",
        "kcl.heartbeat is worker; allowed beside KCL's workers: lease",
    ),
    (
        "kcl: {failover: 20s, heartbeat: lease}",
        "kcl.allow_foreign_checkpoints is false; allowed beside KCL's workers: true",
    ),
    (
        "kcl: {heartbeat: lease, allow_foreign_checkpoints: true}",
        "kcl.allow_foreign_checkpoints is true, but kcl.failover is missing",
    ),
    (
        "kcl: {failover: 30s, heartbeat: lease, allow_foreign_checkpoints: true}",
        "times.lease_duration is 20s; allowed: kcl.failover (30s) or more",
    ),
    (
        JOINS_A_FLEET + "\ntimes: {worker_tick: 11s, lease_duration: 22s}",
        "times.worker_tick is 11s; allowed: at most half of kcl.failover",
    ),
    ("aws: {endpoint: 'localhost:4567'}", "aws.endpoint is 'localhost:4567'; allowed: http://host:port"),
    (
        "  - name: arn:aws:kinesis:eu-west-1:123456789012:stream/my-stream\nstreams_mode: multi",
        "h.yaml:4: streams.1.name is 'arn:aws:kinesis:eu-west-1:123456789012:stream/my-stream', which streams.0 names",
    ),
    ("discovery: {prefix: orders-}", "h.yaml:4: discovery is given, but streams_mode is single"),
    ("discovery: {tags: {team: shop}}", "h.yaml:4: discovery is given, but streams_mode is single"),
    (
        "streams_mode: multi\ndiscovery: {prefix: 'orders/'}",
        "h.yaml:5: discovery.prefix is 'orders/'; allowed: 1 to 128",
    ),
    (
        "streams_mode: multi\ndiscovery: {prefix: o, initial_position: AT_TIMESTAMP}",
        "h.yaml:5: discovery.timestamp is missing, and AT_TIMESTAMP needs it",
    ),
    ("former_streams: auto", "h.yaml:4: former_streams is auto, but streams_mode is single"),
    (
        "streams_mode: multi\nformer_streams_delete: [old]",
        "h.yaml:5: former_streams_delete is given, but former_streams is keep",
    ),
    (
        "streams_mode: multi\nformer_streams: provided\nformer_streams_delete: [a, 'b/c']",
        "h.yaml:6: former_streams_delete.1 is 'b/c'; allowed: the name of a stream",
    ),
    (
        "former_streams_delete: [a, ]\nformer_streams_wait: 0s",
        "former_streams_wait is '0s'; allowed: a duration",
    ),
    ("former_streams_delete: [a, ~]", "h.yaml:4: former_streams_delete.1 is empty; allowed: text"),
    ("former_streams_delete: [{name: a}]", "h.yaml:4: former_streams_delete.0 is a mapping; allowed: text"),
    ("kcl: {max_utilisation: 101}", "kcl.max_utilisation is 101; allowed: 1 to 100 percent"),
    (
        "kcl: {mode: 2.x}",
        "kcl.heartbeat is worker; allowed with kcl.mode: 2.x: lease",
    ),
    ("assignment: {tolerance: 10}", "assignment.tolerance is 10.0; allowed: a fraction"),
    ("wave: {shard_share: 0}", "wave.shard_share is 0.0; allowed: a fraction"),
    ("wave: {shard_share: 0.09}", "wave.shard_share is 0.09; allowed: 0.1 to 1"),
    ("wave: {shard_share: 50}", "wave.shard_share is 50.0; allowed: a fraction"),
    ("kcl: {dampening: 0}", "kcl.dampening is 0.0; allowed: a fraction"),
    ("kcl: {ema_alpha: 1.01}", "kcl.ema_alpha is 1.01; allowed: a fraction"),
    ("kcl: {max_throughput_kbps: 0}", "kcl.max_throughput_kbps is 0.0; allowed: more than 0"),
    ("landing: {table: records}", "landing.table is 'records'; allowed: a namespace and a name"),
    ("landing: {table: lake.}", "landing.table is 'lake.'"),
    ("landing: {table: .records}", "landing.table is '.records'"),
    ("landing: {table: lake..records}", "landing.table is 'lake..records'"),
    ("landing: {table: 'lake.my records'}", "landing.table is 'lake.my records'"),
    ("landing: {table: lake/x.records}", "landing.table is 'lake/x.records'"),
    ("landing: {table: 'lake.`records`'}", "landing.table is 'lake.`records`'"),
    ("landing: {table: 'lake.\"records\"'}", "landing.table is 'lake.\"records\"'"),
    ("landing: {table: lake.-records}", "landing.table is 'lake.-records'"),
    ("landing: {table: 'lake.records;drop'}", "landing.table is 'lake.records;drop'"),
    (
        "landing: {catalog: {warehouse: 's3://b/w/'}, state: 's3://b/w/lake/records/state'}",
        "landing.state is",
    ),
    ("landing: {catalog: {warehouse: 's3://b/w'}}", "landing.state is missing"),
    ("landing: {catalog: {warehouse: 's3a://b/w'}, state: 's3://b/w/lake.db/records'}", "landing.state is"),
    ("landing: {catalog: {warehouse: 'file:///w'}, state: '/w/x/../lake/records/s'}", "landing.state is"),
    ("landing: {state: headrace-data/warehouse/lake/records/x}", "landing.state is"),
    ("times: {lease_duration: 9s}", "times.lease_duration is 9s; allowed: at least two worker ticks (10s)"),
    ("times: {worker_tick: 11s}", "times.lease_duration is 20s; allowed: at least two worker ticks (22s)"),
    ("wave: {every: 301s}", "wave.every is 5m1s; allowed: at most times.linger (5m)"),
]


@pytest.mark.parametrize(("text", "expected"), CONFLICTING)
def test_settings_that_dont_fit_together_are_refused(text: str, expected: str):
    with pytest.raises(BadSetting) as caught:
        parse(text)
    assert expected in str(caught.value)


JUST_FITTING = [
    "    initial_position: AT_TIMESTAMP\n    timestamp: 2026-01-31T00:00:00Z",
    "    initial_position: LATEST",
    "streams_mode: multi",
    "  - name: second\nstreams_mode: multi",
    "streams_mode: multi\ndiscovery: {prefix: orders-, tags: {team: shop}}",
    "streams_mode: multi\nformer_streams: auto\nformer_streams_wait: 2h",
    "streams_mode: multi\nformer_streams: provided\nformer_streams_delete: [old, older]",
    worker(id="host-1.example:5f0c@x"),
    "landing: {catalog: {warehouse: 's3://b/w'}, state: 's3://b/w/lake/records-state'}",
    "landing: {catalog: {type: rest}, state: 's3://b/state'}",
    "landing: {table: a.b.c_1-2}",
    "landing: {table: 2026.Gr\u00fcn}",
    "times: {lease_duration: 10s}",
    "wave: {seconds: 10m, every: 5m}",
    "kcl: {mode: 2.x, heartbeat: lease}",
    "assignment: {tolerance: 0.01}\nkcl: {dampening: 1, ema_alpha: 1, max_throughput_kbps: 0.5}",
]


@pytest.mark.parametrize("text", JUST_FITTING)
def test_settings_that_just_fit_are_accepted(text: str):
    assert parse(text).application == "my-app"


@pytest.mark.parametrize("name", ["s", "a.b_c-D9", "..", "x" * 128, ARN])
def test_names_that_kinesis_allows_are_accepted_for_streams(name: str):
    assert parse(f"streams: [{{name: '{name}'}}]", head="application: app\n").streams[0].name == name


@pytest.mark.parametrize("name", ["x" * 129, "a/b", "a b", "ä", "arn:aws:sqs:eu-west-1:123456789012:orders"])
def test_names_that_kinesis_doesnt_allow_are_refused_for_streams(name: str):
    with pytest.raises(BadSetting, match=r"h\.yaml:2: streams\.0\.name is "):
        parse(f"streams: [{{name: '{name}'}}]", head="application: app\n")


def test_an_arn_of_another_region_is_refused():
    text = f"streams: [{{name: '{ARN}'}}]\naws: {{region: %s}}"
    assert parse(text % "eu-west-1", head="application: app\n").aws.region == "eu-west-1"
    with pytest.raises(BadSetting, match=r"is in eu-west-1 by its ARN, but aws\.region is us-east-1"):
        parse(text % "us-east-1", head="application: app\n")


@pytest.mark.parametrize("name", ["ab", "a b c", "x" * 256, "grün"])
def test_an_application_name_that_no_table_can_have_is_refused(name: str):
    with pytest.raises(BadSetting, match=r"h\.yaml:1: application is .*; allowed: 3 to 255"):
        parse("streams: [{name: s}]", head=f"application: {name}\n")


def test_an_application_name_too_long_for_the_derived_tables_names_is_refused():
    longest = 255 - len("-WorkerMetricStats")
    assert parse("streams: [{name: s}]", head=f"application: {'x' * longest}\n").worker_table.startswith("x")
    with pytest.raises(BadSetting, match=r"coordination\.worker_table is .* \(256 characters\)"):
        parse("streams: [{name: s}]", head=f"application: {'x' * (longest + 1)}\n")
