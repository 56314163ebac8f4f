"""How hard hypothesis tries (HYPOTHESIS_PROFILE: `dev`, `ci`, `deep`); signals that count."""

from __future__ import annotations

import os
import signal

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

# Under nohup, or in the background of a script, signals are ignored that commands should die
# of; what is ignored stays so in every process that tests start.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)
