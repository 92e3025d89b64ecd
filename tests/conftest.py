"""What holds for every test: a clean environment, no sockets beyond loopback, one hypothesis profile.

``HYPOTHESIS_PROFILE`` picks the profile: ``fast`` by default, ``ci`` where ``CI`` is set (more examples, and the same
ones on every run, so that a red run can be repeated), ``mutation`` under `make mutation`.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# Their fixtures start servers, once a test process, whichever folders it runs: a node takes 750 MB.
pytest_plugins = ("tests.emulator.fixture", "tests.opensearch.node")

ROOT = Path(__file__).resolve().parent.parent

LOOPBACK = ["127.0.0.0/8", "::1", "localhost"]

# Folders whose tests start real server processes.
SERVER_FOLDERS = ("deploy", "e2e", "readme")

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

# A developer's own settings must not reach the code under test; this one is for the tests themselves.
if "STRATA_TEST_OPENSEARCH_URL" in os.environ:
    os.environ["TEST_OPENSEARCH_URL"] = os.environ["STRATA_TEST_OPENSEARCH_URL"]
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
    for line in contract_table(terminalreporter):
        terminalreporter.write_line(line)


ADAPTERS = ("model", "sqlite", "dynamodb", "ministack", "opensearch")


def contract_table(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """How many tests of each contract suite passed on each adapter, one line a suite."""
    counts: dict[str, Counter[str]] = {}
    for report in terminalreporter.getreports("passed"):
        suite, _, parameters = report.nodeid.partition("[")
        if report.when == "call" and suite.startswith("tests/contract/"):
            file = suite.partition("::")[0].removeprefix("tests/contract/test_").removesuffix(".py")
            for adapter in set(parameters.rstrip("]").split("-")) & set(ADAPTERS):
                counts.setdefault(file, Counter())[adapter] += 1
    rows = [
        f"{suite:20}" + "".join(f"{passed[adapter] or '':>12}" for adapter in ADAPTERS)
        for suite, passed in sorted(counts.items())
        if len(passed) > 1
    ]
    return [f"{'contract suite':20}" + "".join(f"{adapter:>12}" for adapter in ADAPTERS), *rows] if rows else []
