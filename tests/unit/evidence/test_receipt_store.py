"""Receipts and clearances: what a scan that was stopped is good for."""

import msgspec
import pytest

from shared.evidence.receipt_store import clearance_of, read_receipt, receipt_put
from tests.support.builders import WHEN, a_receipt


def stopped(receipt):
    report = msgspec.structs.replace(receipt.report.adding(incomplete=["stopped"]), unfinished="stopped")
    return msgspec.structs.replace(receipt, report=report)


@pytest.mark.requirement("R37")
def test_a_clearance_covers_what_a_scan_found_and_no_scan_that_was_stopped():
    receipt = a_receipt("c" * 64)
    incomplete = msgspec.structs.replace(receipt, report=receipt.report.adding(incomplete=["a large file"]))
    clearance = clearance_of(incomplete, "anna", "looked at it", WHEN)
    assert clearance.covers(incomplete)
    assert not clearance.covers(stopped(receipt))


def test_a_receipt_keeps_why_its_scan_was_stopped():
    kept = read_receipt(receipt_put(stopped(a_receipt("c" * 64))).doc)
    assert (kept.is_reusable, kept.report.unfinished) == (False, "stopped")
    assert read_receipt(receipt_put(a_receipt("c" * 64)).doc).is_reusable
