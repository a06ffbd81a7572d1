"""Reads `headrace.yaml` and the environment into `Settings`, and remembers where each value came from.

Precedence, value by value: environment variable, then the file, then the default.

    text -> nodes -> values (reader) -> rules

Each step adds the mistakes that it finds to one list, so that a single error names all of them.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.blocks.parse import ParseSettings, Written
from headrace.pipeline.settings.blocks.processors import ProcessorSettings
from headrace.pipeline.settings.component_file import SETTINGS_FILE, Component, settings_part
from headrace.pipeline.settings.ddl import WrongDdl
from headrace.pipeline.settings.model import LandingSettings, Settings
from headrace.pipeline.settings.names import PREFIX, complain_of_variable
from headrace.pipeline.settings.nodes import compose, is_null
from headrace.pipeline.settings.problems import NO_SECRETS, Problems, ValueSource
from headrace.pipeline.settings.reader import Reader
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.rules.general import broken_rules
from headrace.pipeline.settings.rules.schema import columns_of_processor, columns_of_schema
from headrace.pipeline.settings.secrets import holds_secret, names_secret
from headrace.pipeline.settings.values import leaves

DEFAULT_FILE = "headrace.yaml"
MINIMAL = "{application: my-app, streams: [{name: my-stream}]}"
"""The smallest settings file, on one line so that it fits into an error message."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    origins: Mapping[str, ValueSource]
    """Dotted key (streams.0.name) -> source, for every value in `settings`."""
    name: str
    """The name of the settings file, as it was given."""


def read_settings(
    path: Path | str | None, environ: Mapping[str, str], *, component: Component | None = None
) -> Loaded:
    """Read the settings file: `path` (from `--config`), else the file that HEADRACE_CONFIG names, else
    ./headrace.yaml. The file may be a `defs.yaml` of Dagster with a component; `component` says which component
    of it, where Dagster loads it.
    """
    file = Path(path or environ.get("HEADRACE_CONFIG") or DEFAULT_FILE)
    part = settings_part(_text_of(file), str(file), component)
    if isinstance(part, str):
        named = file.parent / part
        part = settings_part(_text_of(named), str(named), None)
        if isinstance(part, str):
            raise BadSetting(
                f"{named}: {file} names this file as `{SETTINGS_FILE}`, and it names another one: name the file "
                "that has the settings"
            )
        file = named
    folder = file.resolve().parent
    loaded = _parse(part, environ, name=str(file), folder=folder)
    return replace(loaded, settings=_anchored(loaded.settings, folder))


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadSetting(
            f"there is no settings file {file}: name another file with --config or HEADRACE_CONFIG, "
            f"or create this one; the smallest is: {MINIMAL}"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadSetting(f"{file}:{line}: the settings file isn't UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise BadSetting(f"the settings file {file} can't be read: {error.strerror}") from None


def _anchored(settings: Settings, folder: Path) -> Settings:
    """Make relative folders absolute, beside the settings file.

    Dagster's daemon and a shell run in different folders, and have to find the same table.
    """
    landing = settings.landing
    state = landing.state
    if state is not None and "://" not in state:
        # A URI names one place already.
        state = str(folder / state)
    parse = tuple(_with_files(target, folder) for target in settings.parse)
    prices = None if settings.prices is None else str(folder / settings.prices)
    landing = replace(landing, home=str(folder / landing.home), state=state)
    processors = tuple(_with_schema(processor, folder) for processor in settings.processors)
    return replace(settings, landing=landing, parse=parse, processors=processors, prices=prices)


def _with_files(target: ParseSettings, folder: Path) -> ParseSettings:
    """The target with what is in the files beside the settings that it names."""
    if target.filter is not None and target.filter.endswith(".sql"):
        _, text = _read(f"the target {target.name}", "filter", folder / target.filter)
        target = replace(target, filter=text)
    if target.schemas is not None:
        # The folder is read for each wave: a schema that comes into it later needs no new start.
        target = replace(target, schemas=str(folder / target.schemas))
    if not target.schema.endswith((".ddl", ".avsc", ".desc")):
        return target
    file = folder / target.schema
    content, text = _read(f"the target {target.name}", "schema", file)
    if file.suffix == ".desc":
        # A compiled schema is no text, and settings hold texts only.
        text = b64encode(content).decode()
    target = replace(target, schema=text)
    if file.suffix == ".ddl":
        try:
            columns_of_schema(target)
        except WrongDdl as error:
            line = text[: error.offset].count("\n") + 1
            raise BadSetting(
                f"{file}:{line}: the schema of the target {target.name} is wrong {error}. Nothing was written"
            ) from None
    return target


def _with_schema(processor: ProcessorSettings, folder: Path) -> ProcessorSettings:
    """The processor with the schema that is in a file beside the settings."""
    if not processor.schema.endswith(".ddl"):
        return processor
    file = folder / processor.schema
    _, text = _read(f"the processor {processor.name}", "schema", file)
    try:
        columns_of_processor(text)
    except WrongDdl as error:
        line = text[: error.offset].count("\n") + 1
        raise BadSetting(
            f"{file}:{line}: the schema of the processor {processor.name} is wrong {error}. Nothing was written"
        ) from None
    return replace(processor, schema=text)


def _read(owner: str, setting: str, file: Path) -> tuple[bytes, str]:
    """The content of a file that a target or a processor names (`owner`, in words); as text too, where the file has to be text."""
    try:
        content = file.read_bytes()
        text = "" if file.suffix == ".desc" else content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"the {setting} file {file} of {owner} can't be read ({type(error).__name__}): "
            f"write the {setting} there, or into the setting itself"
        ) from None
    if not content.strip():
        what = (
            "its table would have no column of the payloads"
            if setting == "schema"
            else "no record could be judged"
        )
        raise BadSetting(
            f"the {setting} file {file} of {owner} is empty, so that {what}: "
            f"write the {setting} there, or into the setting itself"
        )
    return content, text


def parse_settings(text: str, environ: Mapping[str, str], *, name: str, folder: Path | None = None) -> Loaded:
    """Read settings from the text of a file. Messages call the file `name`.

    `folder` is the folder of the file: where it is given, files and folders that the settings name are checked, too.
    """
    return _parse(compose(text, name), environ, name=name, folder=folder)


def _parse(root: yaml.Node | None, environ: Mapping[str, str], *, name: str, folder: Path | None) -> Loaded:
    if root is None or is_null(root):
        raise BadSetting(f"{name}:1: the file is empty; the smallest is: {MINIMAL}")
    problems = Problems(name)
    # Other variables are nobody's business here, not even as a mistake.
    given = {key: value for key, value in environ.items() if key.startswith(PREFIX)}
    variables = {key: value for key, value in given.items() if _is_known(key, value, problems)}
    reader = Reader(variables, problems)
    settings = reader.read(root)
    # After the reading: rules compare values, and a value that can't be read has its default by now.
    for broken in (*broken_rules(settings), *_broken_files(settings.landing, folder)):
        if not problems.touches(broken.key, *broken.also):
            place = (
                reader.place_of(broken.key)
                if broken.offset is None
                else reader.line_of(broken.key, broken.offset)
            )
            problems.broken(place, broken.key, broken.why)
    if error := problems.error():
        raise error
    parse = tuple(
        replace(target, written=Written(str(folder or ""), _places(reader, f"parse.{n}.")))
        for n, target in enumerate(settings.parse)
    )
    processors = tuple(
        replace(processor, written=Written(str(folder or ""), _places(reader, f"processors.{n}.")))
        for n, processor in enumerate(settings.processors)
    )
    written = Written(str(folder or ""))
    settings = replace(settings, parse=parse, processors=processors, written=written)
    origins = {key: reader.origins.get(key, ValueSource()) for key, *_ in leaves(settings)}
    return Loaded(settings, origins, name)


def _places(reader: Reader, section: str) -> Mapping[str, str]:
    """Where the settings of a section are written, by their names in it."""
    return {
        key.removeprefix(section): str(place)
        for key, place in reader.origins.items()
        if key.startswith(section)
    }


def _is_known(variable: str, text: str, problems: Problems) -> bool:
    """Whether a variable stands for a setting. A message about another variable never repeats its value,
    which may be a secret."""
    # Before anything quotes the name or the value.
    if holds_secret(variable):
        problems.variable(variable, f"the name of a variable that begins with {PREFIX} {NO_SECRETS}")
    elif names_secret(variable.lower().replace("__", ".")):
        problems.variable(variable, f"{variable} {NO_SECRETS}")
    elif complaint := complain_of_variable(variable):
        problems.variable(variable, complaint)
        if holds_secret(text):
            problems.variable(variable, f"{variable} {NO_SECRETS}")
    else:
        return True
    return False


def _broken_files(landing: LandingSettings, folder: Path | None) -> Iterator[Broken]:
    if folder is None or landing.catalog:
        # With a catalog of the user's own, Headrace uses no folder `home`.
        return
    home = folder / landing.home
    file = next((path for path in (home, *home.parents) if path.is_file()), None)
    if file is not None:
        yield Broken(
            "landing.home",
            f"is {landing.home!r}, but {file} is a file; allowed: a folder, which is made where there is none. "
            "Nothing was written",
            also=("landing.catalog",),
        )
