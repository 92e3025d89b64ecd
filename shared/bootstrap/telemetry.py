"""What a process of the AWS back end says about itself."""

from __future__ import annotations

from shared.ports.telemetry import Telemetry
from shared.settings import Settings


def chosen_telemetry(settings: Settings) -> Telemetry:
    """Lines for CloudWatch where the environment has a name; a process of an operator or a test says nothing."""
    if settings.service is None:
        from shared.adapters.system.telemetry import Silent

        return Silent()
    from shared.adapters.powertools.telemetry import PowertoolsTelemetry

    return PowertoolsTelemetry(settings.service, settings.log_level)
