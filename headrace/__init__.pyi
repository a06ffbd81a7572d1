from headrace.pipeline.building import build_definitions
from headrace.pipeline.component import KinesisConsumer
from headrace.resources.forked_runs import fork_runs

__all__ = ["KinesisConsumer", "build_definitions", "fork_runs"]
