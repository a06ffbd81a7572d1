"""Finds the code that the settings `hooks` and `discovery.tracker` name, in the same way as the callables of
`parse`: beside the settings file, or installed.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.pipeline.errors import BadSetting, HeadraceError
from headrace.pipeline.lake.spark.user_code import code_beside, imported


def code_named(text: str, folder: str, *, setting: str) -> Any:
    """The object that `module:Name` names. `folder`: the folder of the settings file; empty where there is none."""
    module, _, name = text.partition(":")
    try:
        user = code_beside(Path(folder).resolve(), module) if folder else None
        return getattr(imported(user, module) if user else import_module(module), name)
    except HeadraceError:
        raise
    except Exception as error:
        # A module of the user may raise anything while it is imported.
        raise BadSetting(
            f"{setting} names {text!r}, which can't be imported ({type(error).__name__}: {error}). "
            "Records land all the same; put the module beside the settings file, or install it"
        ) from error
