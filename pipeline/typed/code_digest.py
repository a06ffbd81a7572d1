"""The code that makes the rows of a target's typed table: the user's function that the settings name, and a text
with digests that tells in the ledger which version of code and schema parsed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.lake.spark.session import functions_of_session
from headrace.pipeline.lake.spark.user_code import UserCode, code_beside, imported
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.choices import ParseFormat
from headrace.pipeline.typed.context import BatchContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_SESSION = frozenset({"NO_ACTIVE_OR_DEFAULT_SESSION", "SESSION_OR_CONTEXT_NOT_EXISTS"})
"""What PySpark calls it when a function of its is called, and the process has no session."""

Function = Callable[["DataFrame", BatchContext], "DataFrame"]


class NeedsSession(BadSetting):
    """The user's module asks PySpark for a session while it is imported, and there is none yet."""


class TargetCode:
    """The code that parses the records of one target in one run. Modules beside the settings file are read once,
    when the run first needs them.
    """

    def __init__(self, target: ParseSettings, *, connect: bool = True) -> None:
        self._target = target
        self._connect = connect

    @cached_property
    def user(self) -> UserCode | None:
        """The user's modules beside the settings file. None where the target has no function, or where its
        function is in an installed package.
        """
        folder = self._target.written.folder
        if self._target.format is not ParseFormat.CALLABLE or not folder:
            return None
        return code_beside(Path(folder).resolve(), self._module)

    @property
    def _module(self) -> str:
        return (self._target.callable or "").partition(":")[0]

    def function(self) -> Function:
        target, name = self._target, (self._target.callable or "").partition(":")[2]
        try:
            with functions_of_session(connect=self._connect):
                module = imported(self.user, self._module) if self.user else import_module(self._module)
            function: Function = getattr(module, name)
        except HeadraceError:
            raise
        except Exception as error:
            # A module of the user may raise anything while it is imported.
            raise _kind_of(error)(
                f"the function {target.callable!r} of the target {target.name} can't be imported "
                f"({type(error).__name__}: {error}). Nothing was parsed; put its module beside the settings file, "
                f"or install it, and correct {target.called('callable')}"
            ) from error
        return function

    def text(self) -> str:
        """The name of the parser, with digests of its code and of the schema in the settings. The digest of the
        code covers all settings that decide what a row holds.
        """
        target = self._target
        rules = (
            # Settings that decide about no row aren't among these, so that the digest stays when they change.
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
        name, source = f"{target.format} of headrace {_version()}", ""
        if target.format is ParseFormat.CALLABLE:
            name, source = str(target.callable), self.user.digest if self.user else _source_of(self._module)
        return f"{name}, code {_digest(f'{rules!r} {source}')}, schema {_digest(' '.join(target.schema.split()))}"


def _kind_of(error: Exception) -> type[BadSetting]:
    condition = getattr(error, "getCondition", None)
    return NeedsSession if condition is not None and condition() in _NO_SESSION else BadSetting


def _digest(text: str) -> str:
    # Each range of the ledger has this text, so that it has to be short.
    return sha256(text.encode()).hexdigest()[:12]


@cache
def _source_of(module: str) -> str:
    """The source of an installed module, read once in a process. Modules that it imports aren't part of it."""
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
