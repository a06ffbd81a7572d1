"""The rules of `processors`: each mistake with its line, and a file with a schema."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.pipeline.errors import BadSetting, WrongSettings
from headrace.pipeline.settings.file import parse_settings, read_settings
from headrace.pipeline.settings.processor_application import application_settings, applications_of

PROCESSOR: dict[str, Any] = {"name": "totals", "table": "lake.totals", "callable": "totals:rows"}


def text(*processors: dict[str, Any]) -> str:
    settings = {"application": "app", "streams": [{"name": "orders"}], "processors": list(processors)}
    return yaml.safe_dump(settings, sort_keys=False)


def mistakes(*processors: dict[str, Any]) -> str:
    with pytest.raises(WrongSettings) as raised:
        parse_settings(text(*processors), {}, name="headrace.yaml")
    return str(raised.value)


def test_a_processor_needs_a_name_a_table_and_its_code_only():
    (processor,) = parse_settings(text(PROCESSOR), {}, name="headrace.yaml").settings.processors
    assert (processor.quarantine, processor.mode, processor.on_error) == (
        "lake.totals_quarantine",
        "landed",
        "halt",
    )


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"table": None}, "processors.0.table is missing; needed with mode: landed"),
        ({"application": "orders"}, "processors.0.application is given, and mode is landed; allowed with"),
        ({"failover": "20s"}, "processors.0.failover is given, and mode is landed"),
        ({"leases": "2.x"}, "processors.0.leases is given, and mode is landed"),
        ({"beat": "process"}, "processors.0.beat is given, and mode is landed"),
        ({"consumer": "totals"}, "processors.0.consumer is given, and mode is landed"),
        ({"imports": "shared"}, "processors.0.imports is shared, and mode is landed; allowed with mode"),
        ({"callable": None}, "processors.0.callable is missing; needed, or command"),
        ({"command": "node a.js"}, "processors.0.callable and command are both given"),
        ({"callable": "totals"}, "processors.0.callable is 'totals'; allowed: package.module:Name"),
        ({"callable": None, "command": "a 'b"}, "its quotes don't fit together"),
        (
            {"callable": None, "command": "python a.py", "as_amazon_kclpy": True},
            "say command: python -m headrace.kclpy my_script.py",
        ),
        ({"name": "to tals"}, "processors.0.name is 'to tals'; allowed: letters, digits and _"),
        ({"table": "totals"}, "processors.0.table is 'totals'; allowed: a namespace and a name"),
        ({"table": "lake.records"}, "another table of these settings"),
        ({"records": 10_001}, "processors.0.records is 10001; allowed: 1 to 10,000"),
        ({"tries": 1_001}, "processors.0.tries is 1001; allowed: 1 to 1,000"),
        ({"timeout": "0s"}, "processors.0.timeout is '0s'; allowed: a duration, more than 0"),
        ({"limits": {"memory": 1}}, "processors.0.limits.memory is 1; allowed: 67108864 bytes or more"),
        ({"limits": {"cpu": "500ms"}}, "processors.0.limits.cpu"),
        (
            {"stream": "arn:aws:kinesis:x"},
            "processors.0.stream is 'arn:aws:kinesis:x'; allowed: the stream's name",
        ),
        ({"schema": "row_number INT"}, "Headrace itself gives the table a column row_number"),
        ({"schema": "id BIGNT"}, "processors.0.schema of the processor totals is wrong"),
        ({"on_error": "skip"}, "processors.0.on_error is 'skip'; allowed"),
    ],
)
def test_each_mistake_is_told_with_its_setting(wrong: dict[str, Any], told: str):
    assert told in mistakes({**PROCESSOR, **wrong})


APPLICATION: dict[str, Any] = {
    "name": "totals",
    "mode": "application",
    "application": "totals-app",
    "callable": "totals:Totals",
}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"application": None}, "processors.0.application is missing; needed with mode: application"),
        ({"application": "a b"}, "processors.0.application is 'a b'; allowed: 3 to 230 of"),
        ({"application": "app"}, "the table app belongs to the application that lands records"),
        ({"application": "app-CoordinatorState"}, "the table app-CoordinatorState belongs to"),
        ({"table": "lake.totals"}, "processors.0.table is given, and mode is application"),
        ({"schema": "id BIGINT"}, "processors.0.schema is given, and mode is application"),
        (
            {"failover": "10s"},
            "processors.0.failover is 10s; allowed: 20s or more: say processors.0.beat: process",
        ),
        ({"failover": "9s"}, "processors.0.failover is 9s; allowed: 20s or more: set the fleet's"),
        (
            {"failover": "9s", "beat": "process"},
            "processors.0.failover is 9s; allowed with processors.0.beat: process: 10s or more: set the fleet's",
        ),
        ({"beat": "process"}, "processors.0.beat is process, but processors.0.failover is missing"),
        ({"failover": 30000}, "processors.0.failover is 8h20m; allowed: 1h or less"),
        (
            {"consumer": "totals"},
            "processors.0.consumer is given, but no stream that it reads has retrieval: fanout",
        ),
        (
            {"on_error": "halve"},
            "processors.0.on_error is halve; allowed with mode: application: halt or retry",
        ),
        (
            {"stream": "others"},
            "processors.0.stream is 'others'; allowed with mode: application: a stream of",
        ),
        (
            {"imports": "shared", "callable": None, "command": "node totals.js"},
            "processors.0.imports is shared, and a command starts a program of its own",
        ),
    ],
)
def test_each_mistake_of_an_application_is_told_with_its_setting(wrong: dict[str, Any], told: str):
    assert told in mistakes({**APPLICATION, **wrong})


def test_two_processors_have_two_applications():
    second = {**APPLICATION, "name": "others"}
    assert "the table totals-app belongs to the processor totals" in mistakes(APPLICATION, second)


def test_the_application_of_a_processor_has_tables_of_its_own_and_what_else_the_settings_say():
    loaded = parse_settings(
        text({**APPLICATION, "failover": "20s", "leases": "2.x"}), {}, name="headrace.yaml"
    ).settings
    (processor,) = loaded.processors
    derived = application_settings(loaded, processor)
    assert (derived.lease_table, derived.worker_table) == ("totals-app", "totals-app-WorkerMetricStats")
    assert (derived.is_shared, derived.kcl.mode, derived.kcl.heartbeat) == (True, "2.x", "lease")
    assert (derived.streams, derived.workers, derived.times) == (
        loaded.streams,
        loaded.workers,
        loaded.times,
    )


def fanned_out(*processors: dict[str, Any], **stream: Any) -> str:
    settings = yaml.safe_load(text(*processors))
    settings["streams"] = [{"name": "orders", "retrieval": "fanout", **stream}]
    return yaml.safe_dump(settings, sort_keys=False)


def mistakes_in(written: str) -> str:
    with pytest.raises(WrongSettings) as raised:
        parse_settings(written, {}, name="headrace.yaml")
    return str(raised.value)


def test_the_application_of_a_processor_reads_by_a_consumer_of_its_own():
    def consumers(written: str) -> tuple[str | None, ...]:
        settings = parse_settings(written, {}, name="headrace.yaml").settings
        return tuple(own.consumer_of(own.streams[0]) for own in applications_of(settings))

    assert consumers(fanned_out(APPLICATION)) == ("app", "totals-app")
    assert consumers(fanned_out(APPLICATION, consumer="lake")) == ("lake", "totals-app")
    assert consumers(fanned_out({**APPLICATION, "consumer": "sums"}, consumer="lake")) == ("lake", "sums")
    assert consumers(text({**APPLICATION})) == (None, None)


@pytest.mark.parametrize(
    ("lake", "processor", "told"),
    [
        (
            "sums",
            {"consumer": "sums"},
            "'sums', by which the application that lands records reads orders, too",
        ),
        ("totals-app", {}, "'totals-app', by which the application that lands records reads orders, too"),
        (None, {"consumer": "app"}, "'app', by which the application that lands records reads orders, too"),
        # Beside KCL the application's name is the fleet's consumer, whoever else reads by it.
        (None, {"failover": "20s"}, "'totals-app', which is the consumer of the KCL fleet of that name"),
        (None, {"consumer": "a b"}, "'a b'; allowed: 1 to 128 of A-Z a-z 0-9 _ . -"),
    ],
)
def test_two_readers_of_one_consumer_are_refused(lake: str | None, processor: dict[str, Any], told: str):
    stream = {} if lake is None else {"consumer": lake}
    answer = mistakes_in(fanned_out({**APPLICATION, **processor}, **stream))
    assert f"processors.0.consumer is {told}" in answer
    assert answer.count("processors.0.consumer is") == 1


def test_the_lake_doesnt_read_by_the_consumer_of_the_fleet_that_a_processor_joins():
    processor = {**APPLICATION, "failover": "20s", "consumer": "sums"}
    assert "streams.0.consumer is 'totals-app', which is the consumer of the KCL fleet" in mistakes_in(
        fanned_out(processor, consumer="totals-app")
    )


def test_two_processors_read_by_two_consumers():
    second = {**APPLICATION, "name": "others", "application": "others-app", "consumer": "totals-app"}
    assert (
        "processors.1.consumer is 'totals-app', by which the processor totals reads orders, too"
        in mistakes_in(fanned_out(APPLICATION, second))
    )


def test_a_processor_is_not_given_the_consumer_of_the_fleet_that_the_lake_joins():
    written = yaml.safe_load(fanned_out({**APPLICATION, "consumer": "app"}, consumer="app-headrace"))
    written["kcl"] = {"failover": "20s", "heartbeat": "lease", "allow_foreign_checkpoints": True}
    assert "processors.0.consumer is 'app', which is the consumer of the KCL fleet" in mistakes_in(
        yaml.safe_dump(written)
    )


@pytest.mark.parametrize(
    ("failover", "times", "told"),
    [
        (
            "20s",
            {"worker_tick": "11s", "lease_duration": "30s"},
            "times.worker_tick is 11s; allowed: at most half of",
        ),
        (
            "30s",
            {"lease_duration": "20s"},
            "times.lease_duration is 20s; allowed: processors.0.failover (30s) or more",
        ),
    ],
)
def test_the_times_of_a_processor_beside_kcl_fit_its_fleet(failover: str, times: dict[str, str], told: str):
    written = yaml.safe_load(text({**APPLICATION, "failover": failover}))
    written["times"] = times
    answer = mistakes_in(yaml.safe_dump(written))
    assert told in answer
    assert "kcl.failover" not in answer


def test_a_processor_doesnt_share_a_tables_stream_with_a_fleet():
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/orders/stream/2026-11-27T05:00:00.000"
    written = yaml.safe_load(text({**APPLICATION, "failover": "20s"})) | {"streams": [{"name": arn}]}
    assert (
        "processors.0.failover is given, and orders.stream.2026-11-27T05_00_00.000 is the stream"
        in mistakes_in(yaml.safe_dump(written))
    )


def test_two_processors_need_two_names_and_two_tables():
    told = mistakes(PROCESSOR, PROCESSOR)
    assert "processors.1.name is 'totals'" in told
    assert "processors.1.table is 'lake.totals'" in told


def test_the_schema_of_a_processor_may_be_in_a_file_beside_the_settings(tmp_path: Path):
    (tmp_path / "headrace.yaml").write_text(text({**PROCESSOR, "schema": "totals.ddl"}))
    with pytest.raises(BadSetting, match=r"totals.ddl of the processor totals can't be read"):
        read_settings(tmp_path / "headrace.yaml", {})
    (tmp_path / "totals.ddl").write_text("id BIGINT,\nname WORD")
    with pytest.raises(BadSetting, match=r"totals.ddl:2: the schema of the processor totals is wrong"):
        read_settings(tmp_path / "headrace.yaml", {})
    (tmp_path / "totals.ddl").write_text("id BIGINT")
    assert read_settings(tmp_path / "headrace.yaml", {}).settings.processors[0].schema == "id BIGINT"
