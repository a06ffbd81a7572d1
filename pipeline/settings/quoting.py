"""How a message quotes a text of the settings."""

_MOST = 60


def clipped(text: str) -> str:
    """The text in quotes, and cut where it is long."""
    return repr(text if len(text) <= _MOST else f"{text[:_MOST]}...")
