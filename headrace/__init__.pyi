from headrace.pipeline.building import build_definitions
from headrace.resources.forked_runs import fork_runs

__all__ = ["build_definitions", "fork_runs"]
