"""The case that the checks look at: the settings, as far as they can be read, and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.settings.file import DEFAULT_FILE, Loaded, read_settings


@dataclass(frozen=True, slots=True)
class Case:
    file: Path
    """The settings file, whether it can be read or not."""
    loaded: Loaded | None
    trouble: HeadraceError | None
    """Why the settings can't be read."""

    @classmethod
    def of(cls, config: str | None, environ: Mapping[str, str]) -> Case:
        file = Path(config or environ.get("HEADRACE_CONFIG") or DEFAULT_FILE)
        try:
            return cls(file, read_settings(config, environ), None)
        except HeadraceError as error:
            return cls(file, None, error)

    @property
    def uses_local_spark(self) -> bool:
        """Whether a worker uses the local Spark server; also where the settings can't be read, since that is
        the default."""
        from headrace.pipeline.lake.spark.session import is_local

        return self.loaded is None or any(is_local(worker.spark) for worker in self.loaded.settings.workers)

    @property
    def starts_java(self) -> bool:
        """Whether Headrace starts a JVM: for the local server, or for a classic master."""
        # Where the settings can't be read, their defaults count: they start a local server.
        if self.uses_local_spark or self.loaded is None:
            return True
        return any(worker.spark.master for worker in self.loaded.settings.workers)
