"""How hard hypothesis tries: HYPOTHESIS_PROFILE is `dev`, `ci` or `deep`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: a machine under load is no bug. In CI the same examples each time, so that a
# failure is about the change; new ones are found by `deep` and on people's machines.
_common = {
    "deadline": None,
    "derandomize": "CI" in os.environ,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("dev", max_examples=50, **_common)
settings.register_profile("ci", max_examples=200, **_common)
settings.register_profile("deep", max_examples=5000, **_common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
