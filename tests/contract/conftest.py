"""The catalogs' servers, for the suites that run on several catalogs."""

from tests.engines.servers import postgres, rest

__all__ = ["postgres", "rest"]
