"""Settings that don't fit together are refused, and those that just fit are accepted."""

import pickle

import pytest

from headrace.pipeline.errors import BadSetting, WrongSettings
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


def latest(rule: str) -> str:
    return target(into="latest", latest=rule, schema="'id INT NOT NULL, code STRING, weight DOUBLE NOT NULL'")


JOINS_A_FLEET = "kcl: {failover: 20s, heartbeat: lease, allow_foreign_checkpoints: true}"
CONFLICTING = [
    (
        "  - name: second",
        "h.yaml:2 streams",
    ),
    ("    initial_position: AT_TIMESTAMP", "h.yaml:3 streams.0.timestamp"),
    (
        "    timestamp: 2026-01-31T00:00:00Z",
        "h.yaml:4 streams.0.timestamp",
    ),
    ("workers: []", "h.yaml:4 workers"),
    (
        "workers: [{id: a}, {id: b}, {id: a}]",
        "h.yaml:4 workers.2.id",
    ),
    (worker(id="Leader"), "h.yaml:4 workers.0.id"),
    (worker(id="Migration3.0"), "h.yaml:4 workers.0.id"),
    (worker(id="TableMigration3.5"), "h.yaml:4 workers.0.id"),
    (worker(id="shardId-000000000001"), "h.yaml:4 workers.0.id"),
    (worker(id="'1234:s:17:shardId-000000000001'"), "h.yaml:4 workers.0.id"),
    (worker(id="'a,b'"), "h.yaml:4 workers.0.id"),
    (worker(id="a/b"), "h.yaml:4 workers.0.id"),
    (worker(id="a b"), "h.yaml:4 workers.0.id"),
    (worker(id='"a\\u0007b"'), "h.yaml:4 workers.0.id"),
    (
        worker(id="a", spark="{remote: 'local[2]', master: yarn}"),
        "h.yaml:4 workers.0.spark",
    ),
    (worker(id="a", spark="{remote: yarn}"), "h.yaml:4 workers.0.spark.remote"),
    (target(name="a-b"), "h.yaml:5 parse.0.name"),
    (target(table="lake.records"), "h.yaml:5 parse.0.table"),
    (target(table="lake.records_lineage"), "h.yaml:5 parse.0.table"),
    (target(table="orders"), "h.yaml:5 parse.0.table"),
    (target(format="callable"), "h.yaml:5 parse.0.callable"),
    (target(format="callable", callable="orders"), "h.yaml:5 parse.0.callable"),
    (target(callable="'a.b:c'"), "h.yaml:5 parse.0.callable"),
    (target(format="protobuf", schema="o.desc"), "h.yaml:5 parse.0.message"),
    (target(message="a.B"), "h.yaml:5 parse.0.message"),
    (
        target(format="protobuf", message="a.B"),
        "h.yaml:5 parse.0.schema",
    ),
    (target(format="avro"), "h.yaml:5 parse.0.schema"),
    (
        target(schema="o.avsc"),
        "h.yaml:5 parse.0.schema",
    ),
    ("parse: [{name: orders, table: lake.orders}]", "h.yaml:4 parse.0.schema"),
    (target(stream=ARN), "h.yaml:5 parse.0.stream"),
    (
        target(format="avro", schema="o.avsc", columns="evolving"),
        "h.yaml:5 parse.0.columns",
    ),
    (target(most_columns="20000"), "h.yaml:5 parse.0.most_columns"),
    (
        target(format="avro-glue", schema="o.avsc"),
        "h.yaml:5 parse.0.schemas",
    ),
    (target(schemas="registry"), "h.yaml:5 parse.0.schemas"),
    (target(inflated="{bytes: 1GiB}"), "h.yaml:5 parse.0.inflated.bytes"),
    (target(most_values="200000000"), "h.yaml:5 parse.0.most_values"),
    (target(inflated="{ratio: 2000000}"), "h.yaml:5 parse.0.inflated.ratio"),
    (target(unique="{by: id}"), "h.yaml:5 parse.0.unique.within"),
    (target(unique="{within: 1h}"), "h.yaml:5 parse.0.unique.by"),
    (
        target(unique="{by: 'id, id', within: 1h}"),
        "h.yaml:5 parse.0.unique.by",
    ),
    (
        target(unique="{by: 'id,', within: 1h}"),
        "h.yaml:5 parse.0.unique.by",
    ),
    (target(latest="{key: id}"), "h.yaml:5 parse.0.latest.key"),
    (target(latest="{delete_when: gone}"), "h.yaml:5 parse.0.latest.delete_when"),
    (latest("{key: 'code, code'}"), "h.yaml:5 parse.0.latest.key"),
    (latest("{key: sku}"), "h.yaml:5 parse.0.latest.key"),
    (latest("{key: weight}"), "h.yaml:5 parse.0.latest.key"),
    (latest("{delete_when: sku}"), "h.yaml:5 parse.0.latest.delete_when"),
    (latest("{delete_when: code}"), "h.yaml:5 parse.0.latest.delete_when"),
    (latest("{delete_when: id = 'd'}"), "h.yaml:5 parse.0.latest.delete_when"),
    (latest("{delete_when: code = 1}"), "h.yaml:5 parse.0.latest.delete_when"),
    (latest("{delete_when: code IN ('d')}"), "h.yaml:5 parse.0.latest.delete_when"),
    (target(into="latest", unique="{by: id, within: 1h}"), "h.yaml:5 parse.0.unique.by"),
    (target(into="latest", format="dynamodb", schema="'Keys STRING'"), "h.yaml:5 parse.0.schema"),
    (
        target(
            into="latest", format="dynamodb", schema="'eventName STRING'", latest="{delete_when: eventName}"
        ),
        "h.yaml:5 parse.0.latest.delete_when",
    ),
    ("streams_mode: multi\n" + target(into="latest"), "h.yaml:6 parse.0.stream"),
    (target(stop_above="1.5"), "h.yaml:5 parse.0.stop_above"),
    (target() + target()[len("parse:") :], "h.yaml:6 parse.1.name, h.yaml:6 parse.1.table"),
    (
        "coordination: {lease_table: a/b}",
        "h.yaml:4 coordination.lease_table",
    ),
    (
        "coordination: {worker_table: my-app}",
        "h.yaml:4 coordination.lease_table",
    ),
    (
        "kcl: {failover: 10s, heartbeat: lease, allow_foreign_checkpoints: true}",
        "h.yaml:4 kcl.failover",
    ),
    (
        "kcl: {failover: 9s, beat: process, heartbeat: lease, allow_foreign_checkpoints: true}",
        "h.yaml:4 kcl.failover",
    ),
    (
        "kcl: {beat: process}",
        "h.yaml:4 kcl.beat",
    ),
    (
        "kcl: {failover: 10s, beat: process, heartbeat: lease, allow_foreign_checkpoints: true}\ntimes: {lease_duration: 10s}",
        "h.yaml:5 times.lease_duration",
    ),
    (
        "kcl: {failover: 30000, heartbeat: lease, allow_foreign_checkpoints: true}",
        "h.yaml:4 kcl.failover",
    ),
    (
        "kcl: {failover: 20s, allow_foreign_checkpoints: true}",
        "h.yaml:4 kcl.heartbeat",
    ),
    (
        "kcl: {failover: 20s, heartbeat: lease}",
        "h.yaml:4 kcl.allow_foreign_checkpoints",
    ),
    (
        "kcl: {heartbeat: lease, allow_foreign_checkpoints: true}",
        "h.yaml:4 kcl.allow_foreign_checkpoints",
    ),
    (
        "kcl: {failover: 30s, heartbeat: lease, allow_foreign_checkpoints: true}",
        "h.yaml times.lease_duration",
    ),
    (
        JOINS_A_FLEET + "\ntimes: {worker_tick: 11s, lease_duration: 22s}",
        "h.yaml:5 times.worker_tick",
    ),
    ("aws: {endpoint: 'localhost:4567'}", "h.yaml:4 aws.endpoint"),
    (
        "  - name: arn:aws:kinesis:eu-west-1:123456789012:stream/my-stream\nstreams_mode: multi",
        "h.yaml:4 streams.1.name",
    ),
    ("discovery: {prefix: orders-}", "h.yaml:4 discovery"),
    ("discovery: {tags: {team: shop}}", "h.yaml:4 discovery"),
    (
        "streams_mode: multi\ndiscovery: {prefix: 'orders/'}",
        "h.yaml:5 discovery.prefix",
    ),
    (
        "streams_mode: multi\ndiscovery: {prefix: o, initial_position: AT_TIMESTAMP}",
        "h.yaml:5 discovery.timestamp",
    ),
    ("former_streams: auto", "h.yaml:4 former_streams"),
    (
        "streams_mode: multi\nformer_streams_delete: [old]",
        "h.yaml:5 former_streams_delete",
    ),
    (
        "streams_mode: multi\nformer_streams: provided\nformer_streams_delete: [a, 'b/c']",
        "h.yaml:6 former_streams_delete.1",
    ),
    (
        "former_streams_delete: [a, ]\nformer_streams_wait: 0s",
        "h.yaml:4 former_streams_delete, h.yaml:5 former_streams_wait",
    ),
    ("former_streams_delete: [a, ~]", "h.yaml:4 former_streams_delete.1, h.yaml:4 former_streams_delete"),
    ("former_streams_delete: [{name: a}]", "h.yaml:4 former_streams_delete.0"),
    ("kcl: {max_utilisation: 101}", "h.yaml:4 kcl.max_utilisation"),
    (
        "kcl: {mode: 2.x}",
        "h.yaml:4 kcl.heartbeat",
    ),
    ("assignment: {tolerance: 10}", "h.yaml:4 assignment.tolerance"),
    ("wave: {shard_share: 0}", "h.yaml:4 wave.shard_share"),
    ("wave: {shard_share: 0.09}", "h.yaml:4 wave.shard_share"),
    ("wave: {shard_share: 50}", "h.yaml:4 wave.shard_share"),
    ("kcl: {dampening: 0}", "h.yaml:4 kcl.dampening"),
    ("kcl: {ema_alpha: 1.01}", "h.yaml:4 kcl.ema_alpha"),
    ("kcl: {max_throughput_kbps: 0}", "h.yaml:4 kcl.max_throughput_kbps"),
    ("landing: {table: records}", "h.yaml:4 landing.table"),
    ("landing: {table: lake.}", "h.yaml:4 landing.table"),
    ("landing: {table: .records}", "h.yaml:4 landing.table"),
    ("landing: {table: lake..records}", "h.yaml:4 landing.table"),
    ("landing: {table: 'lake.my records'}", "h.yaml:4 landing.table"),
    ("landing: {table: lake/x.records}", "h.yaml:4 landing.table"),
    ("landing: {table: 'lake.`records`'}", "h.yaml:4 landing.table"),
    ("landing: {table: 'lake.\"records\"'}", "h.yaml:4 landing.table"),
    ("landing: {table: lake.-records}", "h.yaml:4 landing.table"),
    ("landing: {table: 'lake.records;drop'}", "h.yaml:4 landing.table"),
    (
        "landing: {catalog: {warehouse: 's3://b/w/'}, state: 's3://b/w/lake/records/state'}",
        "h.yaml:4 landing.state",
    ),
    ("landing: {catalog: {warehouse: 's3://b/w'}}", "h.yaml:4 landing.state"),
    (
        "landing: {catalog: {warehouse: 's3a://b/w'}, state: 's3://b/w/lake.db/records'}",
        "h.yaml:4 landing.state",
    ),
    (
        "landing: {catalog: {warehouse: 'file:///w'}, state: '/w/x/../lake/records/s'}",
        "h.yaml:4 landing.state",
    ),
    ("landing: {state: headrace-data/warehouse/lake/records/x}", "h.yaml:4 landing.state"),
    ("times: {lease_duration: 9s}", "h.yaml:4 times.lease_duration"),
    ("times: {worker_tick: 11s}", "h.yaml:4 times.lease_duration"),
    ("wave: {every: 301s}", "h.yaml:4 wave.every"),
]


@pytest.mark.parametrize(("text", "expected"), CONFLICTING)
def test_settings_that_dont_fit_together_are_refused(text: str, expected: str):
    with pytest.raises(WrongSettings) as caught:
        parse(text)
    assert ", ".join(f"{mistake.place} {mistake.key}" for mistake in caught.value.mistakes) == expected


def test_a_mistake_is_a_line_of_the_message_which_shows_the_value_without_control_characters():
    with pytest.raises(WrongSettings, match=r"^h\.yaml:4: workers\.0\.id is 'a\\x07b'; ") as caught:
        parse(worker(id='"a\\u0007b"'))
    assert str(caught.value) == "\n".join(mistake.sentence for mistake in caught.value.mistakes)


def test_the_mistakes_of_an_error_that_comes_from_another_process_are_still_there():
    with pytest.raises(WrongSettings) as caught:
        parse("workers: []")
    assert pickle.loads(pickle.dumps(caught.value)).mistakes == caught.value.mistakes


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
    "kcl: {failover: 10s, beat: process, heartbeat: lease, allow_foreign_checkpoints: true}",
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
