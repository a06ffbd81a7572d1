"""What a person installs: one package beside a Dagster project of the person's own, from the wheel and from the sdist."""

import json
import re
import signal
import subprocess
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from headrace.pipeline.lake.spark.session import DISCOVERY
from headrace.pipeline.local.endpoint import LocalAws
from tests.docs.pages import ROOT, named
from tests.eventually import eventually
from tests.ports import free_port
from tests.setup.installed import PROJECT_PACKAGES, Environment, build, write_project
from tests.spark import SparkServer

PAGE = (ROOT / "docs" / "start" / "in-your-project.md").read_text(encoding="utf-8")
_LOAD = """
import importlib, json, sys
import headrace.pipeline.cli, headrace.assets, headrace.resources, headrace.sensors
names = {name: importlib.import_module(name).NAME for name in ("pipeline", "assets", "kclpy", "resources", "sensors")}
from assets.definitions import defs
repository = defs.get_repository_def()
json.dump({
    "names": names,
    "homes": sorted({str(module.__file__) for name, module in sys.modules.items() if name.split(".")[0] == "headrace"}),
    "assets": sorted(key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()),
    "sensors": sorted(sensor.name for sensor in repository.sensor_defs),
    "executor": defs.executor.name,
}, sys.stdout)
"""


def block(language: str, containing: str) -> str:
    """The page's one block of code that contains this text."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (text for text in blocks if containing in text)
    return str(found)


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    wheel, sdist = build(tmp_path_factory.mktemp("distributions"))
    return {"wheel": wheel, "sdist": sdist}


on_the_wheel = pytest.mark.parametrize(
    "environment", ["wheel", pytest.param("sdist", marks=pytest.mark.slow)], indirect=True
)
"""What is promised of installed files: a quick test shows that the sdist installs the same ones as the wheel."""


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def environment(
    request: pytest.FixtureRequest, distributions: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """Headrace with its extras and the person's project, both installed."""
    root = tmp_path_factory.mktemp(request.param)
    made = Environment.make(root)
    made.install(f"headrace[local,postgres] @ file://{distributions[request.param]}")
    project = write_project(root / "mill", block("python", "build_definitions"))
    for name in ("orders", "clicks"):
        (project / "assets" / f"{name}.yaml").write_text(block("yaml", f"application: {name}"))
    made.install(str(project))
    return made


def a_stream(aws: LocalAws, environment: Environment, name: str) -> Path:
    """A stream with twenty records, and the settings file of an application that reads it."""
    aws.client("kinesis").create_stream(StreamName=name, ShardCount=1)
    aws.client("kinesis").put_records(
        StreamName=name, Records=[{"Data": b"%d" % n, "PartitionKey": str(n)} for n in range(20)]
    )
    settings = environment.folder / f"{name}.yaml"
    settings.write_text(
        f"application: {name}\nstreams: [{{name: {name}, initial_position: TRIM_HORIZON}}]\nworkers: [{{id: w1}}]\n"
        f"landing: {{table: lake.orders, home: {name}}}\n"
    )
    return settings


def test_wheel_and_sdist_have_one_package_and_no_doubles_for_tests(distributions: dict[str, Path]):
    with ZipFile(distributions["wheel"]) as wheel:
        in_wheel = {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(distributions["sdist"]) as sdist:
        in_sdist = {name.partition("/")[2] for name in sdist.getnames()}
    shipped = {
        f"headrace/{path.relative_to(ROOT)}"
        for room in PROJECT_PACKAGES
        for path in (ROOT / room).rglob("*.py")
    }

    assert {name.partition("/")[0] for name in in_wheel} == {"headrace"}
    assert {name for name in in_wheel if name.endswith(".py")} == shipped | {
        "headrace/__init__.py",
        "headrace/component.py",
    }
    assert {"headrace/py.typed", "headrace/__init__.pyi", "headrace/pipeline/dagster.yaml"} <= in_wheel
    assert {f"headrace/{named(page)}" for page in (ROOT / "docs").rglob("*.md")} <= in_wheel
    page_files = (ROOT / "pipeline" / "console" / "static").iterdir()
    assert {f"headrace/{path.relative_to(ROOT)}" for path in page_files} <= in_wheel, "the console's page"
    assert in_wheel - {"headrace/pipeline/dagster.yaml"} == {
        name for name in in_sdist if name.startswith("headrace/")
    }
    assert {name for name in in_sdist if "/" not in name} == {
        "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "dagster.yaml", "pyproject.toml", "workspace.yaml", ".gitignore",
    }  # fmt: skip


def test_what_is_installed_are_the_files_of_the_wheel_also_from_the_sdist(
    environment: Environment, distributions: dict[str, Path]
):
    with ZipFile(distributions["wheel"]) as wheel:
        shipped = {name for name in wheel.namelist() if name.startswith("headrace/")}
        assert {f"headrace/{name}" for name in environment.file_names("headrace")} == shipped
        for name in shipped:
            assert (environment.packages / name).read_bytes() == wheel.read(name), name


@on_the_wheel
def test_a_project_with_packages_of_the_same_names_loads_itself_and_two_applications(
    environment: Environment,
):
    done = environment.python("-c", _LOAD)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)

    assert loaded["names"] == {name: f"the mill's {name}" for name in PROJECT_PACKAGES}
    assert [
        home for home in loaded["homes"] if not home.startswith(f"{environment.packages}/headrace/")
    ] == []
    assert {"order_report", "orders/records", "clicks/records", "kinesis/orders"} <= set(loaded["assets"])
    assert set(loaded["sensors"]) >= {
        *("clicks_leader", "clicks_worker_w1", "leader", "orders_leader", "orders_worker_w1"),
    }
    assert loaded["executor"] == "multiprocess"


@on_the_wheel
def test_dagster_finds_the_definitions_as_the_page_says(environment: Environment):
    done = environment.python("-m", "dagster", "definitions", "validate", "-m", "assets.definitions")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("environment", ["wheel"], indirect=True)
def test_an_installed_headrace_lands_records_through_spark_and_proves_them(
    environment: Environment, aws: LocalAws, spark_server: SparkServer, tmp_path: Path
):
    """The workers of the server have no Headrace but the one that is shipped to them."""
    settings = a_stream(aws, environment, f"installed-{environment.root.parent.name}")
    variables = {
        **aws.environment,
        "HEADRACE_CONFIG": str(settings),
        DISCOVERY: str(spark_server.discovery),
    }
    leads = (
        "from headrace.pipeline.settings.file import read_settings; from headrace.pipeline.app.wiring import wire\n"
        f"for _ in range(3): wire(read_settings({str(settings)!r}, {{}}).settings).leader_turn(None)"
    )
    led = environment.python("-c", leads, **variables)
    landed = environment.command("headrace", "consume", "--shard", "shardId-000000000000", **variables)
    proof = environment.command("headrace", "prove", **variables)

    assert led.returncode == 0, led.stderr
    assert landed.returncode == 0, landed.stdout + landed.stderr
    assert "proved: 20 records" in proof.stdout, proof.stdout + proof.stderr
    page = tmp_path / "look.html"
    console = environment.command("headrace", "console", "--once", str(page), **variables)
    assert console.returncode == 0, console.stderr
    (data,) = re.findall(r'id="stored">(.*?)</script>', page.read_text(encoding="utf-8"))
    (shard,) = json.loads(data)["shards"].values()
    assert (shard["landed"]["rows"], len(shard["landed"]["ranges"])) == (20, 1)


@on_the_wheel
def test_the_plugin_of_pytest_works_where_headrace_is_installed(environment: Environment):
    test = environment.folder / "test_mine.py"
    test.write_text(
        "def test_in_process(headrace_kinesis):\n"
        "    headrace_kinesis.client().create_stream(StreamName='mine', ShardCount=1)\n"
    )
    done = environment.python("-m", "pytest", "-q", "-p", "no:cacheprovider", str(test))
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["wheel"], indirect=True)
def test_an_installed_headrace_runs_the_demo(environment: Environment):
    done = environment.command("headrace", "demo", "--records", "2000", DEMO_EXIT="1")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000 put, 2,000 landed, 0 missing, 0 duplicates, 0 out of order" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["wheel"], indirect=True)
def test_an_installed_headrace_dev_lands_records_and_ends_when_it_is_told_to(
    environment: Environment, aws: LocalAws, tmp_path: Path
):
    settings = str(a_stream(aws, environment, f"dev-{environment.root.parent.name}"))
    variables = {**environment.variables, **aws.environment, "DAGSTER_HOME": str(tmp_path / "home")}
    command = [
        str(environment.root / "bin" / "headrace"),
        "dev",
        "--config",
        settings,
        "--port",
        str(free_port()),
    ]
    log = tmp_path / "dev.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            command, cwd=environment.folder, env=variables, stdout=out, stderr=out, start_new_session=True
        ) as dev,
    ):
        try:
            eventually(
                lambda: (
                    "20 records"
                    in environment.command(
                        "headrace", "lineage", "--config", settings, **aws.environment
                    ).stdout
                ),
                "20 records have landed",
                every=2,
            )
            dev.send_signal(signal.SIGTERM)
            assert dev.wait(180) == 0, log.read_text()
        finally:
            dev.kill()


@on_the_wheel
def test_uninstalling_one_of_the_two_leaves_the_other_whole(environment: Environment):
    """The last test of this module: the environment is without both afterwards."""
    before = environment.file_names("headrace")

    environment.pip("uninstall", "--yes", "mill")
    assert environment.file_names("headrace") == before
    assert environment.python("-c", "import headrace.pipeline.cli").returncode == 0

    environment.install(str(environment.root.parent / "mill"))
    environment.pip("uninstall", "--yes", "headrace")
    loaded = environment.python("-c", "import pipeline, assets, resources, sensors; print(assets.NAME)")
    assert loaded.stdout.strip() == "the mill's assets"
    assert environment.file_names("headrace") == set()
