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


def standing_for(calibration: Calibration, rule_id: str, may_block: bool, is_policy: bool) -> Standing:
    """The written rule. A policy rule is exempt. A rule decides alone if it fired on at most 0.13 % of the benign
    skills and on one attack; it is certain if it is a block rule, fired on no benign or teaching skill, and on
    attacks of two sources. Every other rule supports."""
    if is_policy:
        return Standing.POLICY
    figures = calibration.figures.get(rule_id)
    if figures is None:
        return Standing.ALONE
    if figures.benign > MAX_BENIGN_SHARE * calibration.benign or not figures.attacks:
        return Standing.SUPPORTING
    is_clean = not figures.benign and not figures.teaching
    return Standing.CERTAIN if may_block and is_clean and figures.sources >= MIN_SOURCES else Standing.ALONE


def standing_in_place(measured: Standing, claims_certainty: bool, is_described: bool) -> Standing:
    """The description of something certain is still a question; of anything else it only supports."""
    if not is_described or measured is Standing.POLICY:
        return measured
    return Standing.ALONE if claims_certainty and measured is not Standing.SUPPORTING else Standing.SUPPORTING
