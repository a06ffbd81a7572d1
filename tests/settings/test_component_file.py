"""A component's defs.yaml is read by the reader of settings, with the lines of its own file."""

from pathlib import Path

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.component_file import Component
from headrace.pipeline.settings.file import read_settings

SETTINGS = "{application: orders, streams: [{name: orders}]}"
COMPONENT = f"type: headrace.KinesisConsumer\nattributes: {SETTINGS}\n"


def write(folder: Path, text: str, name: str = "defs.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def fill_in(template: str) -> object:
    return {"{{ env.STREAM }}": "staged", "{{ env.NOTHING }}": None, "{{ yes }}": True}[template]


def test_a_command_reads_the_settings_of_a_component(tmp_path: Path):
    loaded = read_settings(write(tmp_path, COMPONENT), {})

    assert loaded.settings.application == "orders"
    assert str(loaded.origins["application"]) == f"{tmp_path}/defs.yaml:2"
    assert loaded.settings.landing.home == str(tmp_path / "headrace-data"), "relative to the file"


def test_a_mistake_in_a_component_names_the_line_of_its_file(tmp_path: Path):
    file = write(
        tmp_path,
        "type: headrace.KinesisConsumer\n\nattributes:\n  application: orders\n  streams:\n    - nam: orders\n"
        "  times:\n    linger: 10 bananas\n",
    )
    with pytest.raises(BadSetting) as refused:
        read_settings(file, {}, component=Component(0, fill_in))

    assert [line.partition(" ")[0] for line in str(refused.value).splitlines()] == [
        f"{file}:6:",
        f"{file}:8:",
    ]


def test_a_component_may_name_a_settings_file_beside_it(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path, SETTINGS, "elsewhere/orders.yaml")
    file = write(
        tmp_path, "type: headrace.KinesisConsumer\nattributes: {settings_file: elsewhere/orders.yaml}\n"
    )

    for component in (None, Component(0, fill_in)):
        loaded = read_settings(file, {}, component=component)
        assert loaded.name == str(tmp_path / "elsewhere" / "orders.yaml")
        assert loaded.settings.landing.home == str(tmp_path / "elsewhere" / "headrace-data")


def test_dagster_reads_the_document_that_it_asks_for(tmp_path: Path):
    file = write(tmp_path, f"{COMPONENT}---\n{COMPONENT.replace('orders', 'clicks')}")

    second = read_settings(file, {}, component=Component(1, fill_in))

    assert second.settings.application == "clicks"
    assert str(second.origins["application"]) == f"{file}:5"


def test_templates_are_filled_in_before_the_settings_are_read(tmp_path: Path):
    text = COMPONENT.replace("[{name: orders}]", "[{name: '{{ env.STREAM }}'}], private_files: '{{ yes }}'")

    loaded = read_settings(write(tmp_path, text), {}, component=Component(0, fill_in))

    assert [stream.name for stream in loaded.settings.streams] == ["staged"]
    assert loaded.settings.private_files


def test_a_template_that_turns_into_a_secret_is_refused_as_a_secret(tmp_path: Path):
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    text = COMPONENT.replace("name: orders", "name: '{{ env.STREAM }}'")
    with pytest.raises(BadSetting, match="looks like a secret") as refused:
        read_settings(write(tmp_path, text), {}, component=Component(0, lambda _: secret))
    assert secret not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "component", "line", "why"),
    [
        ("type: headrace.KinesisConsumer\n", Component(0, fill_in), 1, "has no `attributes`"),
        ("type: headrace.KinesisConsumer\nattributes:\n", None, 2, "has no `attributes`"),
        ("type: dagster.DefsFolderComponent\nattributes: {a: 1}\n", None, 1, "another type"),
        (f"{COMPONENT}---\n{COMPONENT}", None, 4, "2 components"),
        (f"{SETTINGS}\n---\n{SETTINGS}\n", None, 3, "2 YAML documents"),
        (COMPONENT.replace("{app", "{settings_file: a.yaml, app"), None, 2, "beside other settings"),
        (COMPONENT.replace("name: orders", "name: '{{ env.STREAM }}'"), None, 2, "only Dagster fills in"),
        (
            COMPONENT.replace("name: orders", "name: '{{ env.NOTHING }}'"),
            Component(0, fill_in),
            2,
            "this template has no value",
        ),
    ],
)
def test_a_component_without_readable_settings_is_refused_with_its_line(
    tmp_path: Path, text: str, component: Component | None, line: int, why: str
):
    file = write(tmp_path, text)
    with pytest.raises(BadSetting) as refused:
        read_settings(file, {}, component=component)
    assert str(refused.value).startswith(f"{file}:{line}: ")
    assert why in str(refused.value)


def test_a_settings_file_that_names_another_one_is_refused(tmp_path: Path):
    file = write(tmp_path, "type: headrace.KinesisConsumer\nattributes: {settings_file: defs.yaml}\n")
    with pytest.raises(BadSetting, match="names another one"):
        read_settings(file, {})
