"""Fields of the routes for external scanners."""

from functions.api.field_docs.responses import HASH, SKILL, TIME
from functions.http.field_docs import SchemaDocs

_NONCE = ("Random text that makes the request unique: one that repeats is refused.", "b1946ac92492d234")
_CLAIM_ID = ("Of the claim, as it was returned.", "clm_7c1e9a")

FIELDS: SchemaDocs = {
    "ClaimBody": {"nonce": _NONCE},
    "ClaimAnswer": {"claim": "The scan to do; null if none is waiting."},
    "Claim": {
        "claimId": ("Send it with every request about this scan.", "clm_7c1e9a"),
        "provider": ("The scanner that claimed it: you.", "example-scanner"),
        "skillName": ("The skill to scan.", SKILL),
        "contentHash": ("SHA-256 over the names and bytes of its files.", HASH),
        "leaseUntil": ("After this time, in UTC, another process can claim it.", TIME),
        "filesPath": ("Where to request its files.", "/api/v1/internal/scans/files"),
    },
    "FilesBody": {
        "nonce": _NONCE,
        "skillName": ("As it was claimed.", SKILL),
        "claimId": _CLAIM_ID,
        "after": ("`nextAfter` of the previous page; empty for the first.", ""),
    },
    "FilesAnswer": {
        "files": "One page of its files.",
        "nextAfter": ("Send it as `after` for the next page; null on the last one.", None),
    },
    "ScanFile": {
        "path": ("Relative to the skill's folder.", "SKILL.md"),
        "encoding": ("`utf-8`, or `base64` for binary files.", "utf-8"),
        "content": ("The file in that encoding.", "---\nname: pdf\n---\n"),
    },
    "ResultBody": {
        "status": ("`COMPLETED`, or `FAILED` if you could not scan it.", "COMPLETED"),
        "verdict": ("Required if it is completed. `FAIL` counts against the skill.", "PASS"),
        "score": ("0 to 100, 100 being best.", 90),
        "criticalCount": ("Critical findings. A single one blocks the skill immediately.", 0),
        "summary": ("The result in one sentence; shown on the skill's page.", "No findings."),
        "reportUrl": ("Your report about it, for readers.", "https://scanner.example.com/r/1"),
        "findings": ("What you found; at most 100.", []),
        "nonce": _NONCE,
        "provider": ("Your name: the same as in the signature.", "example-scanner"),
        "skillName": ("As it was claimed.", SKILL),
        "claimId": _CLAIM_ID,
        "contentHash": ("As it was claimed: the result is refused if the skill has changed.", HASH),
    },
    "ExternalFinding": {
        "severity": ("How much damage it could do.", "high"),
        "title": ("What was found.", "Reads the SSH key"),
        "file": ("Relative to the skill's folder; null if it is about all of it.", "scripts/setup.sh"),
        "line": ("Counted from 1; null if it is about the file.", 4),
    },
    "ResultAnswer": {
        "ok": ("Always true: the result was stored.", True),
        "skillName": ("The skill it is about.", SKILL),
        "status": ("As it was sent.", "COMPLETED"),
    },
}
