"""`make audit`: what checkov says of the transformed template and of waf.yaml, but for what is accepted here.

python -m tests.support.template_audit CHECKOV    CHECKOV is its program, in an environment of its own
"""

import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from local.cloudformation import load
from tests.support.template_linter import transform

ROOT = Path(__file__).parents[2]
OWN_KEYS = (
    "AWS's keys encrypt it. A key of our own costs a request per use; who may use the role of a function may use "
    "that key too, so it protects against nothing in our threat model (decision 33)."
)


class Accepted(NamedTuple):
    resources: str  # a pattern of kind and name
    reason: str


ACCEPTED = {
    "CKV_AWS_18": Accepted(
        "AWS::S3::Bucket.Content", "Access log of the bucket: functions alone read it, and each logs its requests."
    ),
    "CKV_AWS_27": Accepted("AWS::SQS::Queue.*", OWN_KEYS),
    "CKV_AWS_109": Accepted(
        "AWS::IAM::Role.DeployRole", "It makes the roles of this stack's functions; its own rights are denied to it."
    ),
    "CKV_AWS_111": Accepted(
        "AWS::IAM::Role.DeployRole",
        "It makes what has no name of the stack, such as the API; all data is denied to it.",
    ),
    "CKV_AWS_115": Accepted(
        "AWS::Lambda::Function.*",
        "Only workers and schedules have shares of the account's quota; requests share the rest.",
    ),
    "CKV_AWS_116": Accepted(
        "AWS::Lambda::Function.*",
        "A dead-letter queue is for asynchronous calls, which only schedules are: these have FailedSchedules as "
        "destination. Requests answer their error, and messages go to the queue's own DeadLetters.",
    ),
    "CKV_AWS_117": Accepted(
        "AWS::Lambda::Function.*", "DynamoDB, S3 and SQS are not in a VPC, and GitHub would need a gateway out of one."
    ),
    "CKV_AWS_119": Accepted("AWS::DynamoDB::Table.Table", OWN_KEYS),
    "CKV_AWS_149": Accepted("AWS::SecretsManager::Secret.*", OWN_KEYS),
    "CKV_AWS_158": Accepted("AWS::Logs::LogGroup.*", OWN_KEYS),
    "CKV_AWS_173": Accepted("AWS::Lambda::Function.*", OWN_KEYS + " No variable holds a secret but EDGE_KEY."),
    "CKV_AWS_192": Accepted(
        "AWS::WAFv2::WebACL.WebAcl",
        "It would refuse bodies that mention Log4j, as skills may, and nothing here is Java.",
    ),
}


class Audited(NamedTuple):
    check: str
    title: str
    resource: str


def problems_of(findings: Iterable[Audited]) -> Iterator[str]:
    """What is not accepted, and what is accepted although nothing is found any more."""
    used = set()
    for finding in findings:
        accepted = ACCEPTED.get(finding.check)
        if accepted and fnmatch.fnmatchcase(finding.resource, accepted.resources):
            used.add(finding.check)
        else:
            yield f"{finding.resource}: {finding.title} ({finding.check})"
    yield from (f"{check}: accepted, and no longer found" for check in sorted(ACCEPTED.keys() - used))


def findings_of(checkov: str, folder: Path) -> list[Audited]:
    (folder / "template.json").write_text(json.dumps(transform(load(ROOT / "template.yaml"))))
    (folder / "waf.yaml").write_text((ROOT / "waf.yaml").read_text())
    options = ["--framework", "cloudformation", "--compact", "--quiet", "--skip-download", "--output", "json"]
    result = subprocess.run([checkov, "--directory", folder, *options], check=False, stdout=subprocess.PIPE)
    report = json.loads(result.stdout)
    if report["summary"]["parsing_errors"] or report["summary"]["passed"] == 0:
        sys.exit("checkov could not read the templates.")
    failed = report["results"]["failed_checks"]
    return [Audited(one["check_id"], one["check_name"], one["resource"]) for one in failed]


def main(checkov: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        findings = findings_of(checkov, Path(folder))
    problems = list(problems_of(findings))
    print("\n".join(problems) or f"{len(findings)} findings of {len(ACCEPTED)} kinds, each accepted with its reason.")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
