from __future__ import annotations

from tests.emulator.fixture import ministack

__all__ = ["ministack"]
