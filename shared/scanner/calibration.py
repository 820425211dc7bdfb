"""How much a rule decides, by what it was measured to find: benign skills on which it alarms, attacks that it finds.

The figures are in rules/calibration.yaml, written by `python -m bench.calibrate`. Near-copies count once.
"""

import msgspec

from shared.scanner.report import Standing

MAX_BENIGN_SHARE = 0.0013
MIN_SOURCES = 2


class RuleFigures(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    benign: int = 0  # ordinary skills
    teaching: int = 0  # security-teaching skills, which are not ordinary
    attacks: int = 0
    sources: int = 0  # of these attacks


class Calibration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The skills that were measured, and per rule those on which it fired."""

    benign: int = 0
    teaching: int = 0
    attacks: int = 0
    figures: dict[str, RuleFigures] = {}


def standing_for(
    calibration: Calibration, rule_id: str, *, may_block: bool, is_policy: bool = False, is_definition: bool = False
) -> Standing:
    """The written rule. A block rule is certain if it fired on no benign or teaching skill, and on attacks of two
    sources. A rule decides alone if it fired on at most 0.13 % of the benign skills and on one attack. Every other rule
    supports. A policy rule always decides alone. It blocks by definition, or if it was measured and fired on no benign
    and no teaching skill: what no skill may do needs no attack on record."""
    figures = calibration.figures.get(rule_id, RuleFigures())
    is_clean = not figures.benign and not figures.teaching
    is_measured_clean = is_clean and rule_id in calibration.figures
    if is_policy and (is_definition or is_measured_clean or not may_block):
        return Standing.POLICY
    if may_block and is_clean and figures.sources >= MIN_SOURCES:
        return Standing.CERTAIN
    is_rare = figures.benign <= MAX_BENIGN_SHARE * calibration.benign
    return Standing.ALONE if is_policy or (is_rare and figures.attacks) else Standing.SUPPORTING


def standing_in_place(measured: Standing, *, claims_certainty: bool, is_policy: bool, is_described: bool) -> Standing:
    """The description of something certain is still a question, and so is that of a policy; of anything else it only
    supports."""
    if not is_described:
        return measured
    if is_policy:
        return Standing.POLICY if measured is Standing.POLICY else Standing.ALONE
    return Standing.ALONE if claims_certainty and measured is not Standing.SUPPORTING else Standing.SUPPORTING
