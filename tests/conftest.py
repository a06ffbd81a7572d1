"""What all tests share: hypothesis profiles."""

import tests.hypothesis_profiles  # noqa: F401 - importing it registers and loads the profile
