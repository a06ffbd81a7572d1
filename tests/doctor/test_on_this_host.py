"""What `headrace doctor` finds on this host: versions, Dagster's instance, and Spark."""

import socket
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.dagster_home import dagster_is_set_up
from headrace.pipeline.doctor.diagnosis import Health
from headrace.pipeline.doctor.spark import spark_is_reached
from headrace.pipeline.doctor.versions import _compared, versions_fit

OURS = yaml.safe_load((Path(__file__).parents[2] / "dagster.yaml").read_text(encoding="utf-8"))


def a_case(folder: Path, spark: str = "local[2]", workers: int = 1, *, tries_spark: bool = False) -> Case:
    every = ", ".join(f"{{id: w{n}, spark: {{remote: '{spark}'}}}}" for n in range(workers))
    (folder / "headrace.yaml").write_text(
        f"{{application: shop, streams: [{{name: orders}}], workers: [{every}]}}"
    )
    case = Case.of(str(folder / "headrace.yaml"), {"DAGSTER_HOME": str(folder)})
    assert case.trouble is None, case.trouble
    return Case(case.file, case.loaded, None, case.environ, tries_spark=tries_spark)


def told_of_dagster(folder: Path, config: object, workers: int = 1) -> list[tuple[Health, str]]:
    (folder / "dagster.yaml").write_text(yaml.safe_dump(config))
    return [(each.health, each.sentence) for each in dagster_is_set_up(a_case(folder, workers=workers))]


def test_headraces_own_dagster_yaml_is_well_and_no_file_is_made(tmp_path: Path):
    assert [health for health, _ in told_of_dagster(tmp_path, OURS)] == [Health.WELL, Health.NOTE]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dagster.yaml", "headrace.yaml"]


@pytest.mark.parametrize(
    ("without", "health", "what"),
    [
        ("sensors", Health.ILL, "sensors.use_threads"),
        ("run_monitoring", Health.ILL, "run_monitoring isn't enabled"),
        ("run_coordinator", Health.NOTE, "tag_concurrency_limits"),
        ("retention", Health.NOTE, "17,000 a day"),
    ],
)
def test_a_setting_of_dagster_that_is_missing_is_told_with_its_effect(
    tmp_path: Path, without: str, health: Health, what: str
):
    told = told_of_dagster(tmp_path, {name: value for name, value in OURS.items() if name != without})
    assert [each for each, sentence in told if what in sentence] == [health]


def test_fewer_runs_than_workers_are_told(tmp_path: Path):
    told = told_of_dagster(tmp_path, OURS, workers=25)
    assert (Health.ILL, True) in [
        (health, "max_concurrent_runs is 25" in sentence) for health, sentence in told
    ]


def test_a_daemon_without_a_heartbeat_is_told(tmp_path: Path):
    (tmp_path / "schedules").mkdir()
    [*_, daemon] = told_of_dagster(tmp_path, OURS)
    assert (daemon[0], "no sensor ticks" in daemon[1]) == (Health.ILL, True)


def test_a_package_of_another_version_is_told_with_the_one_that_is_needed():
    needed = [Requirement("boto3>=1.40"), Requirement("pyyaml<2"), Requirement("nobody-has-this")]
    assert [
        each.sentence.split(",")[0].rpartition(" is ")[0] or each.sentence for each in _compared(needed)
    ] == [
        "pyyaml",
        "nobody-has-this isn't installed, and Headrace is made for any version",
    ]


def test_the_versions_of_this_installation_fit(tmp_path: Path):
    assert {each.health for each in versions_fit(a_case(tmp_path))} == {Health.WELL}


def test_a_spark_connect_server_that_isnt_there_is_told(tmp_path: Path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        [spark] = spark_is_reached(a_case(tmp_path, f"sc://127.0.0.1:{unused.getsockname()[1]}"))
    assert (spark.health, "can't be reached" in spark.sentence) == (Health.ILL, True)


def test_a_task_on_spark_imports_what_headrace_needs(joined_spark: None, tmp_path: Path):
    [spark] = spark_is_reached(a_case(tmp_path, tries_spark=True))
    assert (spark.health, spark.sentence) == (
        Health.WELL,
        "worker w0: a task on local[2] imports what it needs",
    )


def test_a_module_that_tasks_lack_is_named(
    joined_spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headrace.pipeline.doctor.spark._IMPORTED", ("json", "not_there"))
    [spark] = spark_is_reached(a_case(tmp_path, tries_spark=True))
    assert (spark.health, "not_there (No module named 'not_there')" in spark.sentence) == (Health.ILL, True)


def test_a_dagster_home_without_the_file_is_left_to_headrace_dev_which_makes_it(tmp_path: Path):
    (diagnosis,) = dagster_is_set_up(Case.of(None, {"DAGSTER_HOME": str(tmp_path)}))
    assert diagnosis.health is Health.ILL
    assert diagnosis.advice.startswith("`headrace dev` makes it, and there is nothing to do before it. ")
