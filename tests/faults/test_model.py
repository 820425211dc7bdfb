"""The state machine over the whole protocol, in the profile that MODEL_PROFILE names: ci or deep."""

import os

from hypothesis import HealthCheck, Phase, settings

from tests.faults.state_machine import PlatformMachine

CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "print_blob": True}
PROFILES = {
    "ci": settings(max_examples=60, stateful_step_count=25, derandomize=True, **CALM),
    "deep": settings(max_examples=400, stateful_step_count=40, **CALM),
    "mutants": settings(max_examples=200, stateful_step_count=40, derandomize=True, phases=[Phase.generate], **CALM),
}

TestPlatform = PlatformMachine.TestCase
TestPlatform.settings = PROFILES[os.environ.get("MODEL_PROFILE", "ci")]
