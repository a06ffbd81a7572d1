"""Parses times that a person writes into the config of a run."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.pipeline.core.words.words import moment_of
from headrace.pipeline.errors import BadSetting


def time_in_config(config: Mapping[str, Any], name: str) -> datetime | None:
    """The time in this field; None where it is empty or missing. Raises BadSetting."""
    if not (text := config.get(name)):
        return None
    try:
        return moment_of(text)
    except ValueError as error:
        raise BadSetting(f"the config has a wrong `{name}`: {error}. Nothing was done") from error
