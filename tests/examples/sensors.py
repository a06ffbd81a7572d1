"""Evaluates the sensors of one deployment again and again, as Dagster's daemon does, until standard input ends.

Started as a process of its own: two deployments in one process would share what a process keeps between ticks. Runs that a
sensor asks for aren't started.
"""

import sys
from threading import Event, Thread

import dagster as dg

from headrace.pipeline.definitions import defs

_BETWEEN = 0.5  # seconds


def main() -> None:
    over = Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    Thread(target=wait, daemon=True).start()
    cursors: dict[str, str | None] = {}
    with dg.DagsterInstance.get() as instance:
        while not over.wait(_BETWEEN):
            for sensor in defs.get_repository_def().sensor_defs:
                result = sensor(dg.build_sensor_context(instance=instance, cursor=cursors.get(sensor.name)))
                assert isinstance(result, dg.SensorResult)
                cursors[sensor.name] = result.cursor
                print(sensor.name, result.skip_reason, flush=True)


if __name__ == "__main__":
    main()
