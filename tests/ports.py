"""Network ports for commands that can't choose one by themselves."""

import random

from headrace.pipeline.cli.beside import services


def free_port() -> int:
    """A free port, drawn at random so that two test processes at the same time don't choose the same one.

    It lies below the ports that the system gives to connections, because such a port may be taken before the command binds it.
    """
    return next(
        port for port in iter(lambda: random.randrange(3900, 10_000), None) if services.is_port_free(port)
    )
