"""Fields of the admin routes."""

from functions.api.field_docs.responses import HASH, REPO, SKILL, SUBMISSION_ID, TIME
from functions.http.field_docs import Docs, SchemaDocs

_CONTINUE = ("`cursor` of the previous response, to continue; leave it out to start.", "eyJwIjo1MH0.h7Yq")
_UNTIL_NULL = ("Send it to continue; null when it is finished.", None)
_SEEN = ("The `version` you looked at: 409 if the submission has changed since.", 7)
_FILES = ("Paths of the files the block is based on; without any, those of the scan's findings.", ["scripts/setup.sh"])
_BLOCKED_NAME = ("The skill to block, by full name or by its last part.", "acme/tools/stealer")
_ENTRY: Docs = {
    "skillName": _BLOCKED_NAME,
    "sourceUrl": ("Only from this repository.", REPO),
    "contentHash": ("Only this content: SHA-256 as submissions and versions show it.", HASH),
    "global": ("True: from every source. Required if neither a source nor a hash is given.", False),
}

FIELDS: SchemaDocs = {
    "WithReason": {},
    "Decision": {"seen": _SEEN},
    "BlockDecision": {"seen": _SEEN, "files": _FILES},
    "BlockSkill": {"files": _FILES},
    "RetryAll": {
        "state": ("Only submissions in this state.", "REJECTED"),
        "reasonPrefix": ("Only those whose reason begins with this text.", "GitHub could not be reached"),
        "cursor": _CONTINUE,
    },
    "RetryDeadLetters": {
        "letterReason": ("Only dead letters with exactly this reason.", "The submission could not be read."),
        "cursor": _CONTINUE,
    },
    "PauseRequest": {"minutes": ("The queue resumes by itself after this time.", 60)},
    "BlockScope": _ENTRY,
    "NewEntry": _ENTRY
    | {
        "threatType": ("The kind of threat, in lower case with hyphens.", "credential-theft"),
        "severity": ("How much damage it could do.", "high"),
        "evidenceUrls": ("Pages that document it; at most 20.", ["https://example.com/advisory/1"]),
    },
    "VersionAction": {"version": ("The version to yank or to restore.", "1.2.0")},
    "Rebuild": {"cursor": _CONTINUE},
    "Repair": {
        "repair": ("True: correct the counters once everything is counted. False: only report.", False),
        "reason": ("Required with `repair`. Stored in the audit log.", "Counters were off after a restore."),
        "cursor": _CONTINUE,
    },
    "RevokeToken": {"evenMine": ("True: also if it is the token of this request.", False)},
    "StuckList": {
        "stuck": "Overdue submissions that no worker holds, oldest first.",
        "more": ("True: there are more than are listed.", False),
        "paused": ("The pause that is in force; null if the queue runs.", None),
    },
    "StuckRow": {
        "submission": "The submission.",
        "attempts": ("How often a worker has started to verify it.", 1),
        "next": ("What the next scan for stuck submissions does with it.", "requeue"),
    },
    "Rescued": {
        "id": ("The submission.", SUBMISSION_ID),
        "done": ("What was done.", "requeue"),
    },
    "RecoveryReport": {
        "found": ("Stuck submissions that this run examined.", 2),
        "sentAgain": ("Waiting submissions whose message was sent again.", 1),
        "requeued": ("Submissions of lost workers that wait again.", 1),
        "givenUp": ("Submissions put on hold, or published if decided, after the last attempt.", 0),
        "leftAlone": ("Submissions that moved on meanwhile.", 0),
        "indexed": ("Published skills that were added to the search index.", 0),
        "failed": ("Ids that could not be read or rescued; the next run tries again.", []),
        "more": ("True: this run was full, the rest follows.", False),
        "paused": ("True: the queue is paused, so waiting submissions were left alone.", False),
    },
    "RetriedPage": {
        "retried": ("Ids of submissions that are verified again.", [SUBMISSION_ID]),
        "failed": ("Ids that could not be read, changed meanwhile, or are in a state that does not allow it.", []),
        "left": ("Matching submissions of this page that were not retried yet.", 0),
        "more": ("True: there are submissions that were not examined.", False),
        "cursor": _UNTIL_NULL,
    },
    "LetterList": {"deadLetters": "Newest first."},
    "Letter": {
        "id": ("The id of the message.", "5f2c9b1e-7a31-4f0e-9a58-0c6f1f1f7a10"),
        "reason": ("Why it could not be processed.", "The submission could not be read."),
        "submissionId": ("The submission it is about; null if the message does not say.", SUBMISSION_ID),
        "body": (
            "The message, shortened; null if it is too large to be kept.",
            '{"id": "sub_01jcv2m8f0r4k9x3w7n5t1q6hz"}',
        ),
        "receivedAt": ("When it was given up, in UTC.", TIME),
    },
    "Discarded": {
        "id": ("The dead letter.", "5f2c9b1e-7a31-4f0e-9a58-0c6f1f1f7a10"),
        "discarded": ("Always true: it was removed.", True),
    },
    "QueueStatus": {
        "sweep": "The state of the check of repositories; null if it could not be read.",
        "paused": ("The pause that is in force; null if the queue runs.", None),
        "active": ("Submissions that wait or are being verified.", 3),
        "maxActive": ("With this many, new submissions are refused.", 5000),
        "depth": "Messages in the queue; null if the queue could not be read.",
        "deadLetters": ("Messages that wait for an operator; `100+` beyond 100.", 0),
        "oldest": "For each active state with submissions, the one that has been in it longest.",
    },
    "Depth": {
        "waiting": ("Messages that a worker could take now.", 2),
        "inFlight": ("Messages that workers have taken.", 1),
        "delayed": ("Messages that become visible later.", 0),
    },
    "Oldest": {
        "state": ("The state.", "RECEIVED"),
        "since": ("Since when it is in this state, in UTC.", TIME),
        "ageMs": ("The same in milliseconds.", 8000),
    },
    "PauseState": {"paused": "The pause that is in force; null if the queue runs."},
    "Pause": {
        "until": ("When the queue resumes by itself, in UTC.", TIME),
        "by": ("The name of the token that paused it.", "alice"),
        "reason": ("Why it was paused.", "Upgrading the rules."),
    },
    "ClaimRequest": {"takeOver": ("True: also if another reviewer has claimed it.", False)},
    "NoteRequest": {"text": ("What other reviewers should know.", "The author answered by mail: it is a test server.")},
    "ReviewState": {
        "claim": "The reviewer who works on it; null if no one does.",
        "notes": "Newest first.",
        "moreNotes": ("True: the audit log has older notes.", False),
    },
    "ReviewClaim": {
        "submissionId": ("The submission.", SUBMISSION_ID),
        "by": ("The name of the token that claimed it.", "alice"),
        "since": ("When it was claimed, in UTC.", TIME),
        "until": ("When the claim ends by itself, in UTC.", "2026-01-15T09:45:00Z"),
    },
    "ReviewNote": {
        "at": ("When it was written, in UTC.", TIME),
        "by": ("The name of the token that wrote it.", "alice"),
        "text": ("The note.", "The author answered by mail: it is a test server."),
    },
    "Released": {
        "id": ("The submission.", SUBMISSION_ID),
        "released": ("Always true: the claim has ended.", True),
    },
    "EntryAdded": {
        "entry": "The new entry.",
        "takenOut": ("Published skills that it blocked.", ["acme/tools/stealer"]),
        "failed": ("Skills that could not be blocked yet; repeat the request.", []),
    },
    "EntryRemoved": {
        "entry": "The entry that was removed.",
        "stillBlocked": ("Skills that another entry or a decision keeps blocked.", []),
        "failed": ("Skills that could not be checked; repeat the request.", []),
    },
    "RescanReport": {
        "rescanned": ("Skills that were scanned under the current rules.", 12),
        "blocked": ("Skills that the current rules block.", []),
        "failed": ("Skills that could not be read or written; a later run tries again.", []),
        "more": ("True: there are skills whose scan is of older rules.", False),
    },
    "Rescanned": {
        "name": ("The skill.", SKILL),
        "verdict": ("Under the current rules.", "PASS"),
        "score": ("0 to 100 under the current rules.", 96),
        "ruleSet": ("Identifies the current rules.", "b41f0c2a"),
        "blocked": ("True if it is blocked now.", False),
    },
    "AdminSkill": {
        "name": ("The full name.", SKILL),
        "currentVersion": ("The newest version that is not yanked.", "1.2.0"),
        "submissionId": ("The submission that published it.", SUBMISSION_ID),
        "isBlocked": ("True: it cannot be installed.", False),
        "blockReason": ("Why it is blocked; null unless it is.", None),
        "isYanked": ("True: every version is withdrawn.", False),
        "isDeleted": ("True: its page is gone, and its name cannot be published again.", False),
    },
    "ReportList": {"reports": "Newest first."},
    "ReportRow": {
        "confirmedBy": ("The reviewer who confirmed it: only then it lowers the trust score.", None),
        "id": ("Identifies the report.", "2026-01-15T09:30:00.000000Z-5f2c9b1e"),
        "skillName": ("The skill it is about.", SKILL),
        "type": ("What the reader said is wrong.", "malicious"),
        "description": ("What the reader saw.", "scripts/setup.sh uploads the environment to a paste site."),
        "createdAt": ("When it was sent, in UTC.", TIME),
        "isOpen": (
            "True until a reviewer has resolved it. An open report lowers the trust score once it is confirmed.",
            True,
        ),
        "settledBy": ("The name of the token that resolved it; null while it is open.", None),
        "settledAt": ("When it was resolved, in UTC; null while it is open.", None),
        "outcome": ("What the reviewer decided; null while it is open.", None),
    },
    "AuditList": {
        "month": ("The month that is listed.", "2026-01"),
        "entries": "Newest first.",
    },
    "AuditEntry": {
        "at": ("When it happened, in UTC.", TIME),
        "by": ("The name of the token.", "alice"),
        "role": ("The role of the token.", "reviewer"),
        "action": ("What was done.", "approve"),
        "subject": ("The id or the name of the object of the action.", SUBMISSION_ID),
        "why": ("The reason that was given.", "Checked by hand."),
    },
    "RecountAnswer": {
        "checked": ("Records read so far.", 314),
        "total": ("How many there are according to the counters.", 314),
        "counted": (
            "What the counters say, by state, with `skills`, `versions` and facets (`category=data`).",
            {"PUBLISHED": 150, "skills": 131},
        ),
        "found": ("What the records say.", {"PUBLISHED": 150, "skills": 131}),
        "drift": ("Counters minus records, where they differ.", {}),
        "unread": ("Records that could not be read.", 0),
        "busy": ("Counters that changed while they were counted: run it again.", 0),
        "repaired": ("True if the counters were corrected.", False),
        "cursor": _UNTIL_NULL,
    },
    "Rebuilt": {
        "checked": ("Records examined by this request.", 314),
        "missing": ("Entries that were missing and are restored, by index.", {"skills": 1}),
        "failed": ("Records that could not be read.", []),
        "cursor": _UNTIL_NULL,
    },
    "ArtifactsBuilt": {
        "checked": ("Versions examined by this request.", 164),
        "built": ("Versions whose artifacts were missing and are built.", 2),
        "failed": ("Versions that could not be built, as name@version.", []),
        "cursor": _UNTIL_NULL,
    },
    "Migrated": {"renamed": ("New names of the skills that were renamed.", [SKILL])},
    "TokenList": {"tokens": "Every token that this platform knows, revoked or not."},
    "Token": {
        "id": ("A prefix of the token's hash: it identifies the token and grants nothing.", "3fa94c1b2d60"),
        "name": ("The name it was created under; the audit log shows it.", "alice"),
        "role": ("`reviewer` or `admin`.", "reviewer"),
        "isYours": ("True for the token of this request.", True),
        "revoked": ("True: it is no longer accepted.", False),
        "revokedAt": ("When it was revoked, in UTC; null unless it was.", None),
        "revokedBy": ("The name of the token that revoked it; null unless it was.", None),
    },
}
