"""The component `headrace.KinesisConsumer`: one application in a project that is made of Dagster's components.

Its `defs.yaml` is read by the reader of headrace.yaml (`headrace.pipeline.settings.component_file`).
"""

import json
import os
import re
from os import PathLike
from pathlib import Path
from textwrap import dedent
from typing import Any

import dagster as dg
from dagster.components.resolved.errors import ResolutionException
from pydantic import BaseModel, ConfigDict, Field

from headrace.pipeline.building import build_definitions
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.component_file import SETTINGS_FILE, Component
from headrace.pipeline.settings.file import DEFAULT_FILE, read_settings
from headrace.pipeline.settings.json_schema import attributes_schema
from headrace.pipeline.settings.model import Settings


class KinesisConsumerAttributes(BaseModel):
    """The attributes that a `defs.yaml` may have. The reader of settings reads their values from the file's text."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
        return attributes_schema()


class ScaffoldedConsumer(BaseModel):
    """The parameters of `dg scaffold defs headrace.KinesisConsumer`."""

    stream: str | None = Field(
        None, description="The Kinesis stream, by name or ARN. Default: the name of the new folder."
    )
    settings_file: str | None = Field(
        None, description="A settings file that is there already, relative to the new folder."
    )


class KinesisConsumerScaffolder(dg.Scaffolder[ScaffoldedConsumer]):
    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldedConsumer]:
        return ScaffoldedConsumer

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldedConsumer]) -> None:
        folder = request.target_path.parent if request.append else request.target_path
        if request.scaffold_format == "python":
            _write_python(folder, request)
            return
        named = request.params.settings_file
        attributes = (
            _smallest(folder, request) if named is None else f"{SETTINGS_FILE}: {json.dumps(named)}\n"
        )
        told = (
            ""
            if named is not None
            else (
                "\n# The settings of one application. `headrace config --config defs.yaml` prints all of them with their defaults.\n"
            )
        )
        text = f"type: {request.type_name}\n{told}attributes:\n" + re.sub("(?m)^(?=.)", "  ", attributes)
        if request.append:
            with request.target_path.open("a", encoding="utf-8") as file:
                file.write(f"---\n{text}")
        else:
            (folder / "defs.yaml").write_text(text, encoding="utf-8")


def _write_python(folder: Path, request: dg.ScaffoldRequest[ScaffoldedConsumer]) -> None:
    named = request.params.settings_file
    if named is None:
        named = DEFAULT_FILE
        (folder / named).write_text(_smallest(folder, request), encoding="utf-8")
    text = f"""\
        from pathlib import Path

        import dagster as dg
        from headrace import KinesisConsumer


        @dg.component_instance
        def load(context: dg.ComponentLoadContext) -> KinesisConsumer:
            return KinesisConsumer(Path(__file__).parent / {json.dumps(named)})
        """
    (folder / "component.py").write_text(dedent(text), encoding="utf-8")


def _smallest(folder: Path, request: dg.ScaffoldRequest[ScaffoldedConsumer]) -> str:
    """The smallest settings, with data of this machine in the project's folder."""
    stream = request.params.stream or folder.name
    root = request.project_root or folder
    home = os.path.relpath(root / "headrace-data", folder)
    table = re.sub(r"\W", "_", folder.name)
    return dedent(f"""\
        application: {json.dumps(folder.name)}
        streams:
          - name: {json.dumps(stream)}
            initial_position: TRIM_HORIZON
        landing:
          table: lake.{table}
          home: {json.dumps(home)} # relative to this file; or `catalog:` for Glue, REST, ...
        """)


@dg.scaffold_with(KinesisConsumerScaffolder)
class KinesisConsumer(dg.Component):
    """Lands Kinesis streams in an Iceberg table, each record exactly once and in the order of its shard.

    One component is one application: its attributes are the settings of a headrace.yaml, or `settings_file` with the name
    of such a file.
    """

    def __init__(self, settings: Settings | str | PathLike[str]) -> None:
        """`settings`: the path of a settings file, or settings that were read already."""
        self.settings = settings

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        return dg.ComponentTypeSpec(
            description=cls.__doc__,
            tags=["kinesis", "iceberg", "pyspark"],
            produces=["asset", "asset_check", "job", "resource", "schedule", "sensor"],
        )

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        return KinesisConsumerAttributes

    @classmethod
    def load(
        cls,
        attributes: BaseModel | None,  # noqa: ARG003 (the settings are read from the file's text, which has lines)
        context: dg.ComponentLoadContext,
    ) -> "KinesisConsumer":
        resolution = context.with_rendering_scope({"context": context}).resolution_context

        def fill_in(template: str) -> object:
            try:
                return resolution.resolve_value(template)
            except ResolutionException as error:
                raise BadSetting(f"this template can't be filled in: {_first_sentence(error)}") from None

        document = context.component_path.instance_key
        part = Component(document if isinstance(document, int) else 0, fill_in)
        return cls(read_settings(_file_of(context.path), {}, component=part).settings)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return build_definitions(self.settings)


def _file_of(path: Path) -> Path:
    """The file of a component, whose path is the folder in which the file lies."""
    names = ("defs.yaml", "defs.yml", "component.yaml")
    return next((path / name for name in names if (path / name).is_file()), path)


def _first_sentence(error: ResolutionException) -> str:
    """Dagster's message repeats the template with its place, and lists what a template may name."""
    return str(error).strip().partition("\n")[0]
