"""The profile quick is for every change, more for `make test-all`, few is for `make coverage` and `make mutants`, and long is for runs at night.

HYPOTHESIS_PROFILE=long chooses."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick",
    max_examples=30,
    deadline=None,  # no test may depend on wall-clock time
    derandomize=True,  # the same examples on every run, so that only a change of the code can make a test fail
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("more", settings.get_profile("quick"), max_examples=100)
settings.register_profile("few", settings.get_profile("quick"), max_examples=10)
settings.register_profile("long", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
