"""Settings are read from the file and the environment, with the source of each value."""

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import InitialPosition
from headrace.pipeline.settings.file import MINIMAL, Loaded, parse_settings, read_settings
from headrace.pipeline.settings.model import Settings, SparkSettings, StreamSettings, WorkerSettings
from headrace.pipeline.settings.names import variable_for
from headrace.pipeline.settings.problems import ValueSource
from headrace.pipeline.settings.values import is_mapping, knobs, leaves

SMALLEST = Settings(application="my-app", streams=(StreamSettings(name="my-stream"),))

FILE = """\
application: orders
streams:
  - name: orders
    initial_position: AT_TIMESTAMP
    timestamp: 2026-01-31T01:00:00+01:00
workers:
  - id: w1
    spark: {remote: "sc://one:15002", conf: {spark.a: 1, spark.b: true, spark.c: "no"}}
  -
    id: w2
    spark:
      master: yarn
aws:
wave:
  bytes: 64 MiB
  seconds: 1m30s
coordination:
  create: never
  deletion_protection: true
"""


def parse(text: str, **environ: str) -> Loaded:
    return parse_settings(text, environ, name="headrace.yaml")


def test_the_example_in_error_messages_is_a_valid_smallest_file():
    assert parse(MINIMAL).settings == SMALLEST


def test_values_of_every_type_are_read_from_a_file():
    settings = parse(FILE).settings
    assert settings.streams == (
        StreamSettings(
            name="orders",
            initial_position=InitialPosition.AT_TIMESTAMP,
            timestamp=datetime(2026, 1, 31, tzinfo=UTC),
        ),
    )
    assert settings.workers == (
        WorkerSettings(
            id="w1",
            spark=SparkSettings(
                remote="sc://one:15002", conf={"spark.a": "1", "spark.b": "true", "spark.c": "no"}
            ),
        ),
        WorkerSettings(id="w2", spark=SparkSettings(master="yarn")),
    )
    assert (settings.wave.bytes, settings.wave.seconds) == (64 * 1024 * 1024, timedelta(seconds=90))
    assert settings.coordination.deletion_protection is True
    assert settings.aws.region is None


@pytest.mark.parametrize(
    ("key", "source"),
    [
        ("application", "headrace.yaml:1"),
        ("streams.0.timestamp", "headrace.yaml:5"),
        ("workers.0.spark.conf.spark.b", "headrace.yaml:8"),
        ("workers.1.id", "headrace.yaml:10"),
        ("wave.bytes", "headrace.yaml:15"),
        ("wave.records", "default"),
        ("aws.region", "HEADRACE__AWS__REGION"),
        ("landing.catalog.uri", "HEADRACE__LANDING__CATALOG"),
    ],
)
def test_each_value_has_its_source(key: str, source: str):
    loaded = parse(
        FILE,
        HEADRACE__AWS__REGION="eu-west-1",
        HEADRACE__LANDING__CATALOG="{uri: 'http://catalog'}",
        HEADRACE__LANDING__STATE="s3://b/state",
    )
    assert str(loaded.origins[key]) == source


def test_every_value_has_exactly_one_source():
    loaded = parse(FILE, HEADRACE__WORKERS__1__ID="w9")
    assert set(loaded.origins) == {key for key, *_ in leaves(loaded.settings)}


def test_settings_are_frozen():
    settings = parse(MINIMAL).settings
    with pytest.raises(FrozenInstanceError):
        settings.application = "another"  # type: ignore[misc]


# --- the environment ----------------------------------------------------------------------------------------

_ROLE = "arn:aws:iam::123456789012:role/reader"
_SERVICES = ("kinesis", "dynamodb", "cloudwatch")
_SAMPLES = {
    "streams.0.role": _ROLE,
    **{f"aws.{service}.role": _ROLE for service in _SERVICES},
    **{f"aws.{service}.endpoint": "http://127.0.0.1:1" for service in _SERVICES},
    "streams.0.name": "other",
    "streams.0.initial_position": "LATEST",
    "streams_mode": "multi",
    "kcl.layout": "M",
    "metrics.to": "cloudwatch",
    "metrics.dimensions": "ShardId, StreamName",
    "coordination.create": "never",
    "coordination.billing": "PROVISIONED",
    "coordination.point_in_time_recovery": "true",
    "coordination.deletion_protection": "true",
    "landing.table": "lake.other",
    "upkeep.orphans_after": "2d",
    "upkeep.keep_runs": "2d",
    "upkeep.retention": "30d",
    "dagster.group": "shop",
    "dagster.owners.0": "team:data",
    "dagster.complete_from": "2026-01-31T00:00:00Z",
    "dagster.backfill.since": "2026-01-31T00:00:00Z",
    "dagster.schedules.upkeep": "7 * * * *",
    "dagster.schedules.proof": "never",
    "dagster.pools": "{proof: nightly}",
    "dagster.checks.blocking.0": "no_gaps",
    "aws.endpoint": "http://127.0.0.1:4567",
    "workers.0.spark.remote": "sc://one:1",
    "parse.0.name": "orders",
    "parse.0.table": "lake.typed",
    "parse.0.callable": "package.module:function",
    "discovery.tracker": "package.module:function",
    "hooks": "package.module:Class",
    "aws.client": "{read_timeout: 3}",
    "parse.0.schema": "id BIGINT NOT NULL",
    "parse.0.unique.by": "id",
    "parse.0.latest.key": "id",
    "parse.0.latest.delete_when": "id = 0",
    "processors.0.name": "totals",
    "processors.0.table": "lake.totals",
    "processors.0.callable": "package.module:function",
    "processors.0.mode": "landed",
    "processors.0.schema": "id BIGINT NOT NULL",
    "processors.0.limits.memory": "67108864",
}


def _sample(key: str, hint: object) -> str:
    if is_mapping(hint):
        return _SAMPLES.get(key, "{a: b}")
    if isinstance(hint, type) and issubclass(hint, StrEnum) and key not in _SAMPLES:
        return list(hint)[-1]
    kinds = {
        int: "7",
        bool: "false",
        float: "0.5",
        timedelta: "2m30s" if key.endswith(("linger", "duration", "times.checkpoint", "failover")) else "9s",
    }
    return _SAMPLES.get(key) or (kinds.get(hint, "some-text") if isinstance(hint, type) else "some-text")


_A_TARGET = {
    "HEADRACE__PARSE__0__NAME": "orders",
    "HEADRACE__PARSE__0__TABLE": "lake.orders",
    "HEADRACE__PARSE__0__SCHEMA": "id INT",
}
_A_PROCESSOR = {
    "HEADRACE__PROCESSORS__0__NAME": "words",
    "HEADRACE__PROCESSORS__0__TABLE": "lake.words",
    "HEADRACE__PROCESSORS__0__CALLABLE": "words:rows",
}
_ALSO = {
    "kcl.beat": {
        "HEADRACE__KCL__FAILOVER": "20s",
        "HEADRACE__KCL__HEARTBEAT": "lease",
        "HEADRACE__KCL__ALLOW_FOREIGN_CHECKPOINTS": "true",
    },
    "streams.0.external_id": {"HEADRACE__STREAMS__0__ROLE": _ROLE},
    **{
        f"aws.{service}.external_id": {f"HEADRACE__AWS__{service.upper()}__ROLE": _ROLE}
        for service in _SERVICES
    },
    "processors.0.command": {"HEADRACE__PROCESSORS__0__CALLABLE": ""},
    **{
        f"processors.0.{name}": {
            "HEADRACE__PROCESSORS__0__MODE": "application",
            "HEADRACE__PROCESSORS__0__APPLICATION": "words",
            "HEADRACE__PROCESSORS__0__TABLE": "",
        }
        for name in ("application", "leases", "imports")
    },
    "processors.0.beat": {
        "HEADRACE__PROCESSORS__0__MODE": "application",
        "HEADRACE__PROCESSORS__0__APPLICATION": "words",
        "HEADRACE__PROCESSORS__0__TABLE": "",
        "HEADRACE__PROCESSORS__0__FAILOVER": "20s",
    },
    "processors.0.consumer": {
        "HEADRACE__PROCESSORS__0__MODE": "application",
        "HEADRACE__PROCESSORS__0__APPLICATION": "words",
        "HEADRACE__PROCESSORS__0__TABLE": "",
        "HEADRACE__STREAMS__0__RETRIEVAL": "fanout",
    },
    "processors.0.failover": {
        "HEADRACE__PROCESSORS__0__MODE": "application",
        "HEADRACE__PROCESSORS__0__APPLICATION": "words",
        "HEADRACE__PROCESSORS__0__TABLE": "",
        "HEADRACE__TIMES__LEASE_DURATION": "2m30s",
    },
    "dagster.freshness.warn": {"HEADRACE__DAGSTER__FRESHNESS__FAIL": "1h"},
    "dagster.backfill.by": {"HEADRACE__DAGSTER__BACKFILL__SINCE": "2026-01-31T00:00:00Z"},
    "dagster.backfill.since": {"HEADRACE__DAGSTER__BACKFILL__BY": "day"},
    "streams.0.consumer": {"HEADRACE__STREAMS__0__RETRIEVAL": "fanout"},
    "discovery.consumer": {"HEADRACE__DISCOVERY__RETRIEVAL": "fanout"},
    "landing.catalog": {"HEADRACE__LANDING__STATE": "s3://b/state"},
    "parse.0.format": {"HEADRACE__PARSE__0__CALLABLE": "package.module:function"},
    "parse.0.callable": {"HEADRACE__PARSE__0__FORMAT": "callable"},
    "parse.0.schemas": {
        "HEADRACE__PARSE__0__FORMAT": "avro-glue",
        "HEADRACE__PARSE__0__SCHEMA": "orders.avsc",
    },
    "parse.0.unique.by": {"HEADRACE__PARSE__0__UNIQUE__WITHIN": "1h"},
    "parse.0.unique.within": {"HEADRACE__PARSE__0__UNIQUE__BY": "id"},
    "parse.0.latest.key": {
        "HEADRACE__PARSE__0__INTO": "latest",
        "HEADRACE__PARSE__0__SCHEMA": "id INT NOT NULL",
    },
    "parse.0.latest.delete_when": {
        "HEADRACE__PARSE__0__INTO": "latest",
        "HEADRACE__PARSE__0__SCHEMA": "id INT NOT NULL",
    },
    "parse.0.message": {
        "HEADRACE__PARSE__0__FORMAT": "protobuf",
        "HEADRACE__PARSE__0__SCHEMA": "orders.desc",
    },
}


@pytest.mark.parametrize(("key", "hint"), [(key, hint) for key, _, hint in knobs(Settings)])
def test_every_setting_can_be_set_by_its_variable(key: str, hint: object):
    variable = variable_for(key)
    environ = {variable: _sample(key, hint)}
    if key == "streams.0.timestamp":
        environ = {
            variable: "2026-01-31T00:00:00Z",
            "HEADRACE__STREAMS__0__INITIAL_POSITION": "AT_TIMESTAMP",
        }
    if key.startswith(("discovery.", "former_streams")):
        environ["HEADRACE__STREAMS_MODE"] = "multi"
    if key == "discovery.initial_position":
        environ[variable] = "LATEST"
    if key == "discovery.timestamp":
        environ |= {
            variable: "2026-01-31T00:00:00Z",
            "HEADRACE__DISCOVERY__INITIAL_POSITION": "AT_TIMESTAMP",
        }
    if key.startswith("former_streams_delete"):
        environ["HEADRACE__FORMER_STREAMS"] = "provided"
    environ = _ALSO.get(key, {}) | environ
    if key.startswith("parse."):
        environ = _A_TARGET | environ
    if key.startswith("processors."):
        environ = _A_PROCESSOR | environ
    if key == "kcl.mode":
        environ["HEADRACE__KCL__HEARTBEAT"] = "lease"
    if key == "kcl.failover":
        environ = {
            variable: "20s",
            "HEADRACE__KCL__HEARTBEAT": "lease",
            "HEADRACE__KCL__ALLOW_FOREIGN_CHECKPOINTS": "true",
        }
    loaded = parse(MINIMAL, **environ)
    name = _sample(key, hint).strip("{").partition(":")[0]
    at = f"{key}.{name}" if is_mapping(hint) else key
    assert loaded.origins[at] == ValueSource(variable)


def test_the_environment_overrides_the_file_and_the_file_the_default():
    text = f"{MINIMAL[:-1]}, wave: {{records: 5, every: 3s}}}}"
    wave = parse(text, HEADRACE__WAVE__RECORDS="6").settings.wave
    assert (wave.records, wave.every, wave.seconds) == (6, timedelta(seconds=3), timedelta(seconds=60))


def test_a_variable_can_add_to_a_list_and_change_its_entries():
    workers = parse(
        FILE, HEADRACE__WORKERS__0__SPARK__THREADS="4", HEADRACE__WORKERS__2__ID="w3"
    ).settings.workers
    assert [(worker.id, worker.spark.threads) for worker in workers] == [("w1", 4), ("w2", 16), ("w3", 16)]
    assert workers[0].spark.remote == "sc://one:15002"


def test_a_variable_can_change_the_default_worker():
    workers = parse(MINIMAL, HEADRACE__WORKERS__0__SPARK__THREADS="4").settings.workers
    assert workers == (WorkerSettings(id="w1", spark=SparkSettings(threads=4)),)


def test_the_variable_of_a_mapping_replaces_the_files_mapping():
    text = f"{MINIMAL[:-1]}, landing: {{state: /s, catalog: {{type: sql, uri: 'sqlite://'}}}}}}"
    settings = parse(text, HEADRACE__LANDING__CATALOG='{"type": "rest"}').settings
    assert settings.landing.catalog == {"type": "rest"}


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_variable_means_the_default(empty: str):
    text = f"{MINIMAL[:-1]}, wave: {{records: 5}}}}"
    assert parse(text, HEADRACE__WAVE__RECORDS=empty).settings.wave.records == 1_000_000


def test_an_empty_value_and_an_empty_section_mean_the_default():
    text = (
        "application: my-app\nstreams: [{name: my-stream}]\nworkers:\naws:\nwave:\n  records:\n  bytes: ~\n"
    )
    assert parse(text).settings == SMALLEST


def test_without_remote_and_master_a_worker_has_the_local_spark():
    assert SparkSettings(threads=3).remote == "local[2]"
    assert SparkSettings(master="yarn").remote is None


def test_yaml_anchors_work():
    text = (
        "application: my-app\nstreams: [{name: my-stream}]\nworkers:\n"
        "  - {id: w1, spark: &spark {master: yarn}}\n  - {id: w2, spark: *spark}\n"
    )
    assert [worker.spark.master for worker in parse(text).settings.workers] == ["yarn", "yarn"]


# --- which file ---------------------------------------------------------------------------------------------


@pytest.fixture
def three_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("given", "named", "headrace"):
        text = f"{{application: {name}, streams: [{{name: s}}]}}"
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_given_as_an_option_comes_before_that_of_the_variable_and_before_that_of_the_working_directory(
    three_files: Path,
):
    environ = {"HEADRACE_CONFIG": str(three_files / "named.yaml")}
    assert read_settings("given.yaml", environ).settings.application == "given"
    assert read_settings(None, environ).settings.application == "named"
    assert read_settings(None, {"HEADRACE_CONFIG": ""}).settings.application == "headrace"


def test_the_error_for_a_missing_file_says_what_to_do(tmp_path: Path):
    with pytest.raises(BadSetting) as caught:
        read_settings(tmp_path / "no.yaml", {})
    message = str(caught.value)
    assert all(part in message for part in ("no.yaml", "--config", "HEADRACE_CONFIG", MINIMAL))


def test_the_errors_for_a_folder_and_for_a_file_that_isnt_text_name_it(tmp_path: Path):
    (tmp_path / "bytes.yaml").write_bytes(b"application: x\nstreams: \xff\xfe\n")
    with pytest.raises(BadSetting, match=r"bytes\.yaml:2: .*UTF-8"):
        read_settings(tmp_path / "bytes.yaml", {})
    with pytest.raises(BadSetting, match="can't be read"):
        read_settings(tmp_path, {})


def test_relative_folders_are_relative_to_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "headrace.yaml"
    file.write_text("application: app\nstreams: [{name: s}]\nlanding: {home: data, state: states}\n")
    landing = read_settings(file, {}).settings.landing
    assert (landing.home, landing.state) == (str(tmp_path / "data"), str(tmp_path / "states"))


def test_the_schema_of_a_target_may_be_in_a_file_beside_the_settings(tmp_path: Path):
    target = "{name: orders, table: lake.orders, schema: orders.ddl}"
    (tmp_path / "h.yaml").write_text(f"{MINIMAL[:-1]}, parse: [{target}]}}")
    with pytest.raises(BadSetting, match=r"orders\.ddl of the target orders can't be read"):
        read_settings(tmp_path / "h.yaml", {})
    (tmp_path / "orders.ddl").write_text(" \n")
    with pytest.raises(BadSetting, match=r"orders\.ddl of the target orders is empty"):
        read_settings(tmp_path / "h.yaml", {})
    (tmp_path / "orders.ddl").write_text("id BIGINT,\n  name STRING\n")
    assert read_settings(tmp_path / "h.yaml", {}).settings.parse[0].schema == "id BIGINT,\n  name STRING\n"


@pytest.mark.parametrize(
    ("how", "content", "schema"),
    [
        ("format: avro, schema: orders.avsc", b'{"doc": "two  spaces"}', '{"doc": "two  spaces"}'),
        ("format: protobuf, schema: orders.desc, message: Order", b"\x00\xff", "AP8="),
    ],
)
def test_a_schema_of_avro_or_protobuf_is_read_from_its_file_as_it_is(
    tmp_path: Path, how: str, content: bytes, schema: str
):
    target = f"{{name: orders, table: lake.orders, {how}}}"
    (tmp_path / "h.yaml").write_text(f"{MINIMAL[:-1]}, parse: [{target}]}}")
    (tmp_path / ("orders.avsc" if "avsc" in how else "orders.desc")).write_bytes(content)
    assert read_settings(tmp_path / "h.yaml", {}).settings.parse[0].schema == schema
