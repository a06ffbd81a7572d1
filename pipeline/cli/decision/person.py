"""The name of the person who runs a command, for what is stored about it."""

import getpass
import socket


def person() -> str:
    try:
        user = getpass.getuser()
    # A container may run under a number that has no name.
    except (KeyError, OSError):
        user = "somebody"
    return f"{user} on {socket.gethostname()}"
