"""What the process of a run has used of AWS and of the CPU."""

from headrace.pipeline.aws.clients.meter import METER
from headrace.pipeline.ports.usage import ProcessUsage


def process_usage() -> ProcessUsage:
    """What this process has used so far."""
    return METER.usage()
