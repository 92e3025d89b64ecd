"""What holds for every test: a clean environment, no sockets beyond loopback, one hypothesis profile.

``HYPOTHESIS_PROFILE`` picks the profile: ``fast`` by default, ``ci`` where ``CI`` is set (more examples, and the same
ones on every run, so that a red run can be repeated), ``mutation`` under `make mutation`.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parent.parent

LOOPBACK = ["127.0.0.0/8", "::1", "localhost"]

# Folders whose tests start real server processes.
SERVER_FOLDERS = ("e2e", "readme")

# Two shared cores make wall-clock deadlines meaningless, and a slow machine is no reason to fail a property.
settings.register_profile("fast", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci",
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# For `make mutation`: the same verdict on every run, and no time spent on making a failure smaller.
settings.register_profile(
    "mutation",
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast"))

# A developer's own settings must not reach the code under test.
for name in [name for name in os.environ if name.startswith("STRATA_")]:
    del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        below_tests = item.path.relative_to(ROOT / "tests").parts
        if below_tests[0] in SERVER_FOLDERS:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.loopback)
        if item.get_closest_marker("loopback"):
            item.add_marker(pytest.mark.allow_hosts(LOOPBACK))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the simulations and the kill test tried, summed over all workers, in one line each."""
    sums: dict[str, Counter[str]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, numbers in report.user_properties:
            if isinstance(numbers, dict):
                sums.setdefault(name, Counter()).update(dict.fromkeys(numbers, 0))
                sums[name].update(numbers)
    for name, numbers in sorted(sums.items()):
        terminalreporter.write_line(f"{name}: " + ", ".join(f"{what} {count}" for what, count in numbers.items()))
