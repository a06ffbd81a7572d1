"""What all tests share: hypothesis profiles, and AWS's service models read once."""

from collections.abc import Iterator
from functools import cache

import pytest

import tests.hypothesis_profiles  # noqa: F401 - importing it registers and loads the profile


@pytest.fixture(scope="session", autouse=True)
def _service_models_are_read_once() -> Iterator[None]:
    """botocore parses megabytes of JSON for each session, and so for each client that the product makes: most of the
    time that a test of an adapter takes. The clients of one session share what was parsed, so those of many may.
    """
    from botocore.loaders import JSONFileLoader

    read = cache(JSONFileLoader().load_file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _, path: read(path))
        yield
