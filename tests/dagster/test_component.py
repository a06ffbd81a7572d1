"""The component headrace.KinesisConsumer, as Dagster loads a project's folder `defs`."""

import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster.components.core.component_tree import ComponentTree, ComponentTreeException

import headrace
from headrace.assets.names import records_key
from headrace.pipeline.building import build_definitions
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.dagster import DagsterSettings
from headrace.pipeline.settings.component_file import COMPONENT
from headrace.pipeline.settings.model import Settings, StreamSettings

# Dagster itself calls pydantic's former functions for files of components.
pytestmark = pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated")

ORDERS = "type: headrace.KinesisConsumer\nattributes:\n  application: orders\n  streams: [{name: orders}]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder `defs` of a project whose package has a name of its own: modules stay loaded after a test."""
    package = f"mill_{abs(hash(tmp_path))}"
    defs = tmp_path / "src" / package / "defs"
    defs.mkdir(parents=True)
    for folder in (defs, defs.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "{package}"\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path / "src"))
    yield defs
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


def write(defs: Path, name: str, text: str) -> Path:
    (defs / name).mkdir()
    file = defs / name / "defs.yaml"
    file.write_text(text)
    return file


def keys(defs: Path) -> set[str]:
    loaded = ComponentTree.for_project(defs).build_defs()
    return {key.to_user_string() for key in loaded.resolve_all_asset_keys()}


def test_each_component_brings_the_definitions_of_one_application(project: Path):
    write(project, "orders", ORDERS)
    write(project, "clicks", ORDERS.replace("orders", "clicks"))

    assert {"orders/records", "clicks/records", "kinesis/orders", "kinesis/clicks"} <= keys(project)


def test_one_file_may_have_several_components(project: Path):
    write(project, "both", f"{ORDERS}---\n{ORDERS.replace('orders', 'clicks')}")

    assert {"orders/records", "clicks/records"} <= keys(project)


def test_variables_and_the_projects_folder_fill_templates_in(project: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STREAM", "staged")
    write(project, "orders", ORDERS.replace("name: orders", "name: '{{ env.STREAM }}'"))
    home = "'{{ context.project_root }}/data'"
    write(project, "clicks", ORDERS.replace("orders", "clicks") + f"  landing: {{home: {home}}}\n")
    component = ComponentTree.for_project(project).load_component(project / "clicks")

    assert "kinesis/staged" in keys(project)
    assert isinstance(component, headrace.KinesisConsumer)
    assert isinstance(component.settings, Settings)
    assert component.settings.landing.home == f"{project.parents[2]}/data"


@pytest.mark.parametrize("template", ["{{ env.NOT_SET_HERE }}", "{{ env('NOT_SET_HERE') }}", "{{ nothing }}"])
def test_a_template_that_cannot_be_filled_in_is_refused_with_its_line(project: Path, template: str):
    file = write(project, "orders", ORDERS.replace("name: orders", f'name: "{template}"'))
    with pytest.raises(ComponentTreeException) as refused:
        keys(project)

    told: BaseException | None = refused.value
    while told is not None and not isinstance(told, BadSetting):
        told = told.__cause__
    assert str(told).startswith(f"{file}:4: this template ")
    assert "\n" not in str(told)


def test_the_component_in_python_takes_a_settings_file(project: Path):
    (project / "orders").mkdir()
    (project / "orders" / "orders.yaml").write_text("{application: orders, streams: [{name: orders}]}")
    (project / "orders" / "component.py").write_text(
        "from pathlib import Path\nimport dagster as dg\nfrom headrace import KinesisConsumer\n\n"
        "@dg.component_instance\ndef load(context: dg.ComponentLoadContext) -> KinesisConsumer:\n"
        "    return KinesisConsumer(Path(__file__).parent / 'orders.yaml')\n"
    )
    assert "orders/records" in keys(project)


def test_the_component_has_the_name_under_which_commands_read_its_file():
    assert f"headrace.{headrace.KinesisConsumer.__name__}" == COMPONENT
    assert "KinesisConsumer" in dir(headrace), "dg looks through the names of the module"


def test_a_key_prefix_is_before_each_asset_but_the_streams():
    plain = Settings(application="orders", streams=(StreamSettings(name="orders"),))
    prefixed = Settings(
        application="orders",
        streams=plain.streams,
        dagster=DagsterSettings(key_prefix=("raw", "kinesis")),
    )

    def shown(settings: Settings) -> set[str]:
        graph = build_definitions(settings).resolve_asset_graph()
        return {key.to_user_string() for key in graph.get_all_asset_keys()}

    streams = {"kinesis/orders"}
    assert shown(prefixed) == streams | {f"raw/kinesis/{key}" for key in shown(plain) - streams}
    assert records_key(prefixed) == dg.AssetKey(["raw", "kinesis", "orders", "records"])
