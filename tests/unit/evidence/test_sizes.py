"""R32: what is stored stays under its size limits, whatever people write into it."""

import hashlib

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.evidence.receipt_store import read_receipt, receipt_put
from shared.records.submissions import LARGEST_ROW, State, Submission, new_id, row_of
from shared.scanner import finding_for
from tests.support.builders import WHEN, a_receipt

LARGEST_ITEM = 400 * 1024  # of DynamoDB


def a_submission(**fields) -> Submission:
    facts = {"source": "s", "skill_path": ".", "skill_name": "me/tools/greeter", "state": State.RECEIVED}
    return Submission(id=new_id(WHEN), created_at=WHEN, updated_at=WHEN, **(facts | fields))


def size_of(submission: Submission) -> int:
    return len(msgspec.json.encode(row_of(submission)))


@pytest.mark.requirement("R32")
@given(reason=st.text(max_size=600), ref=st.text(max_size=300))
@example(reason="\U0001f600" * 600, ref="")
@example(reason="", ref="\1" * 300)
def test_a_row_is_at_most_700_bytes_in_any_script(reason, ref):
    repo_url = "https://github.com/" + "o" * 39 + "/" + "r" * 100
    assert size_of(a_submission(reason=reason, repo_url=repo_url, skill_name=f"o/r/slug@{ref}")) <= LARGEST_ROW


@pytest.mark.requirement("R32")
@pytest.mark.parametrize("letter", ["x", "ä", "語", "\U0001f600", "\x01", '"'])
def test_a_reason_that_is_cut_says_so(letter):
    cut = row_of(a_submission(reason=letter * 5000))
    assert cut.reason.endswith("…")
    assert cut.skill_name == "me/tools/greeter"
    assert size_of(a_submission(reason=letter * 5000)) <= LARGEST_ROW
    assert row_of(a_submission(reason=letter * 20)).reason == letter * 20


@pytest.mark.requirement("R32")
def test_a_receipt_of_too_many_findings_fits_an_item_and_says_that_it_was_cut():
    receipt = a_receipt("0" * 64)
    findings = [
        finding_for("FILE-SYMLINK", f"folder-{n}/{hashlib.sha256(str(n).encode()).hexdigest()}", f"leads to {n}" * 9)
        for n in range(3000)
    ]
    many = msgspec.structs.replace(receipt, report=receipt.report.adding(findings))
    put = receipt_put(many)
    assert len(put.doc.encode()) < LARGEST_ITEM
    stored = read_receipt(put.doc)
    assert (len(stored.report.findings), stored.truncated) == (1000, True)
    assert not read_receipt(receipt_put(receipt).doc).truncated
