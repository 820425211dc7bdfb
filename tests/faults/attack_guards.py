"""The guards against attacks, switched off like the others."""

from tests.faults.guards import Guard

ATTACK_GUARDS: list[Guard] = []
