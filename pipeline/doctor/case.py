"""What the checks examine (the case): the settings, as far as they can be read, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.iam.roles import Role
from headrace.pipeline.settings.file import DEFAULT_FILE, Loaded, read_settings

if TYPE_CHECKING:
    from headrace.pipeline.app.ports import Ports
    from headrace.pipeline.settings.model import Settings

DUTIES = (Role.LEADER, Role.WORKER)
"""The roles of the process that runs Dagster's code: sensors and runs."""


@dataclass(frozen=True, slots=True)
class Case:
    file: Path
    """The settings file, whether it can be read or not."""
    loaded: Loaded | None
    trouble: HeadraceError | None
    """Why the settings can't be read."""
    environ: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[Role, ...] = DUTIES
    """The roles that this process is to have in AWS."""
    watch: timedelta | None = None
    """How long to watch the tables for signs of life."""
    tries_spark: bool = False
    """Whether to start a Spark session and run a task."""

    @classmethod
    def of(cls, config: str | None, environ: Mapping[str, str]) -> Case:
        file = Path(config or environ.get("HEADRACE_CONFIG") or DEFAULT_FILE)
        try:
            return cls(file, read_settings(config, environ), None, environ)
        except HeadraceError as error:
            return cls(file, None, error, environ)

    @property
    def settings(self) -> Settings | None:
        return None if self.loaded is None else self.loaded.settings

    @property
    def uses_local_spark(self) -> bool:
        """Whether a worker uses the local Spark server; also where the settings can't be read, since that is
        the default."""
        from headrace.pipeline.lake.spark.session import is_local

        return self.settings is None or any(is_local(worker.spark) for worker in self.settings.workers)

    @property
    def starts_java(self) -> bool:
        """Whether Headrace starts a JVM: for the local server, or for a classic master."""
        # Where the settings can't be read, their defaults count: they start a local server.
        if self.uses_local_spark or self.settings is None:
            return True
        return any(worker.spark.master for worker in self.settings.workers)


@dataclass(frozen=True, slots=True)
class LiveCase:
    """A case whose settings can be read, with the ports for requests to AWS."""

    case: Case
    settings: Settings
    ports: Ports
