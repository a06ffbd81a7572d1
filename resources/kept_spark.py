"""Keeps the local Spark server running as long as a Dagster code server of its project lives.

Without this, the server would end some minutes after a run, and the next run, an hour later, would start it anew.
"""

import sys

from headrace.pipeline.lake.spark.server.users import use
from headrace.pipeline.lake.spark.session import is_local, own_folder
from headrace.pipeline.settings.model import Settings


def keep_spark(settings: Settings) -> None:
    """Make the Dagster code server of this process a user of the local Spark server, which then keeps running. In
    another process, this does nothing.
    """
    # Only a code server imports this module of Dagster's; a run or a command doesn't.
    is_code_server = "dagster._grpc.server" in sys.modules
    if is_code_server and any(is_local(worker.spark) for worker in settings.workers):
        use(own_folder(), "Dagster's code server")
