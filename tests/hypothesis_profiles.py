"""quick for every change, few where tests run for `make coverage` and `make mutants`, long for the nights.

HYPOTHESIS_PROFILE=long chooses."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick",
    max_examples=50,
    deadline=None,  # wall-clock times are no test
    derandomize=True,  # the same examples on every run: a red build is somebody's change
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("few", settings.get_profile("quick"), max_examples=10)
settings.register_profile("long", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
