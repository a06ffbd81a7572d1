"""The code that makes a target's rows: the function that the settings name, and which version of what parses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from headrace.pipeline.core.batch_context import BatchContext
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.settings.parse_block import ParseSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Callable_ = Callable[["DataFrame", BatchContext], "DataFrame"]


def function_of(settings: ParseSettings) -> Callable_:
    module, _, name = (settings.callable or "").partition(":")
    try:
        found: Callable_ = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadSetting(
            f"the function {settings.callable!r} of the target {settings.name} can't be imported ({error}). Nothing was parsed; the module has to "
            "be importable where Dagster and `headrace parse` run"
        ) from error
    return found


def code_of(target: ParseSettings) -> str:
    """What parses, with digests of the code and of the schema in the settings. The digest of the code covers all settings that decide about a row."""
    rules = (
        target.format,
        target.columns,
        target.most_columns,
        target.compression,
        target.inflated,
        target.most_values,
        target.message,
        target.filter,
        target.stream,
    )
    if target.format is ParseFormat.CALLABLE:
        module, _, _ = (target.callable or "").partition(":")
        name, source = str(target.callable), _source_of(module)
    else:
        name, source = f"{target.format} of headrace {_version()}", ""
    return f"{name}, code {_digest(f'{rules!r} {source}')}, schema {_digest(target.schema)}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:12]


@cache
def _source_of(module: str) -> str:
    """The source of the whole module, read once in a process. Modules that it imports aren't part of it."""
    try:
        return inspect.getsource(import_module(module))
    except (OSError, TypeError):
        # A module without a source, such as one of C: its version is that of the setting `version` only.
        return ""


@cache
def _version() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:
        return "unknown"
