"""The rules of `processors`: each mistake with its line, and a file with a schema."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.pipeline.errors import BadSetting, WrongSettings
from headrace.pipeline.settings.file import parse_settings, read_settings
from headrace.pipeline.settings.processor_application import application_settings

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
        ({"failover": "10s"}, "processors.0.failover is 10s; allowed: 20s to 1h"),
        (
            {"on_error": "halve"},
            "processors.0.on_error is halve; allowed with mode: application: halt or retry",
        ),
        (
            {"stream": "others"},
            "processors.0.stream is 'others'; allowed with mode: application: a stream of",
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
        text({**APPLICATION, "failover": "30s", "leases": "2.x"}), {}, name="headrace.yaml"
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
