"""Headrace: Amazon Kinesis streams into lake tables, every record exactly once.

    from headrace import build_definitions      Dagster's definitions of an application, for a project with its own (docs/start/in-your-project.md)
    from headrace import register_spark_source  spark.read.format("headrace") in a session of yours (docs/use/spark-source.md)
    type: headrace.KinesisConsumer              the same as a component of Dagster's (docs/start/as-a-component.md)

The five packages, and `docs`, are links to the folders of the same names at the top of the repository. The packages are imported under this name only
(`headrace.pipeline`, ...): a Dagster project usually has packages called `assets` or `sensors` of its own.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "KinesisConsumer": "headrace.component",
    "build_definitions": "headrace.pipeline.building",
    "fork_runs": "headrace.resources.forked_runs",
    "register_spark_source": "headrace.pipeline.source.register",
}
"""Public name -> the module that is imported when the name is first asked for. Spark's workers and most commands import this package, and need
no Dagster. `__init__.pyi` has the names for type checkers."""

__all__ = ["KinesisConsumer", "build_definitions", "fork_runs", "register_spark_source"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Dagster's `dg` looks through the names of a module for components."""
    return [*globals(), *_HOMES]
