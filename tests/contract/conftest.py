"""The catalogs' servers, for the suites that run on several catalogs, and a lake table that has a landing."""

import pytest

from tests.contract.lakes import land
from tests.engines.servers import postgres, rest
from tests.lake.samples import ORIGIN, a_key
from tests.lake.tables import Lake

__all__ = ["postgres", "rest"]


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """A table in which the position of shard 0 is 3."""
    lake.table.commit(ORIGIN)
    land(lake, a_key(0), None, [1, 2, 3])
    return lake
