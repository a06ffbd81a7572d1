"""A process that is interrupted while its Spark session starts: where its main thread waits for the close of the channel on which the server has
answered. It ends with 0; where that close leaves a channel for which Python waits for ever, it doesn't end.
"""

import gc
import os
import signal
import sys
import threading
from types import FrameType

from headrace.pipeline.lake.spark.session import spark_session
from headrace.pipeline.settings.model import SparkSettings
from tests.eventually import eventually


def _interrupt_in_close(frame: FrameType, event: str, _argument: object) -> None:
    caller = frame.f_back
    if (
        event == "call"
        and frame.f_code is threading.Condition.wait.__code__
        and caller
        and caller.f_code.co_name == "_close"
    ):
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(_interrupt_in_close)
    try:
        spark_session(SparkSettings(), "headrace-test").stop()
    except KeyboardInterrupt:
        # The error keeps the channel until gRPC's threads have ended, as Dagster does: the main thread is then the one that frees it.
        eventually(lambda: threading.active_count() == 1, "the threads of the channel have ended", within=30)
    finally:
        sys.setprofile(None)
    gc.collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
