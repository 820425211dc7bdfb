"""Fields of runs and notifications."""

from functions.api.field_docs.responses import COMMIT, HASH, REPO, SUBMISSION_ID, TIME
from functions.http.field_docs import Docs, SchemaDocs

_RUN: Docs = {
    "run": ("Its number; 1 is the first run.", 2),
    "state": ("Where this run ended, or is now.", "PUBLISHED"),
    "reason": ("Why it is in this state, in one sentence.", "published as version 1.0.1"),
    "startedAt": ("When it was received, in UTC.", TIME),
    "endedAt": ("Its last move, in UTC; null while it is in progress.", TIME),
    "attempts": ("How often a worker claimed it.", 1),
    "commit": ("The commit that it read; null for an upload.", COMMIT),
    "contentHash": ("Identifies its files; null if none were fetched.", HASH),
    "score": ("0 to 100 from its scan; null if it was not scanned.", 96),
    "publishedVersion": ("The version that it published; null if none.", "1.0.1"),
    "evidenceKept": (
        "False if an older release overwrote its record: only its history, and what it published, are shown.",
        True,
    ),
    "url": ("The permanent address of its page.", f"/submissions/{SUBMISSION_ID}/runs/2"),
}
_WEBHOOK: Docs = {
    "url": ("Where events are sent.", "https://hooks.example.org/vskill"),
    "createdAt": ("When it was set, in UTC.", TIME),
    "secret": ("Signs what is sent; returned only when the webhook is set.", "whsec_…"),
}

FIELDS: SchemaDocs = {
    "RunItem": _RUN,
    "RunList": {
        "submissionId": ("The submission that was asked for.", SUBMISSION_ID),
        "runs": "Its runs, the first one first.",
    },
    "RunDetail": {
        **_RUN,
        "submissionId": ("The submission that it is a run of.", SUBMISSION_ID),
        "skillName": ("The skill's full name.", "acme/skills/pdf"),
        "skillPath": ("Its folder in the repository.", "skills/pdf"),
        "repoUrl": ("The repository on GitHub; null for an upload.", REPO),
        "stateHistory": "Its moves, the oldest first.",
        "scanResult": "What its scan found; null if it was not scanned, or not kept.",
        "appeals": "Appeals against the decision of this run, the oldest first.",
    },
    "WebhookBody": {
        "url": ("Where events are to be sent: https on a public host.", "https://hooks.example.org/vskill")
    },
    "Webhook": _WEBHOOK,
    "WebhookRemoved": {"ok": ("Always true.", True)},
    "DeliveryStatus": {
        "id": ("Identifies the event; the same in the header `x-vskill-delivery`.", f"{SUBMISSION_ID}-5"),
        "type": (
            "What happened, such as `submission.rejected`, `skill.withdrawn` or `appeal.answered`.",
            "submission.published",
        ),
        "at": ("When it was decided, in UTC.", TIME),
        "skillName": ("The skill that it is about.", "acme/skills/pdf"),
        "status": ("`waiting`, `delivered`, `failed` after a day, or `not sent` without a webhook.", "delivered"),
        "attempts": ("How often it was sent.", 1),
        "nextAttemptAt": ("When it is tried again, in UTC; null if it is not.", TIME),
        "error": ("Why the last attempt failed; null if it did not.", "the receiver answered 500"),
    },
    "NotificationSettings": {
        "repo": ("The repository of the owner token.", "acme/skills"),
        "webhook": "Where its events are sent; null if nowhere.",
        "feed": ("The Atom feed of the repository, which is public.", "/feeds/owners/acme/skills"),
        "deliveries": "The last 50 events, the newest first.",
    },
    "SweepStatus": {
        "tickedAt": ("When repositories were last checked, in UTC; null before the first check.", TIME),
        "overdue": ("How many repositories were overdue at the end of the last tick.", 0),
        "requestsPerHour": ("How many requests to GitHub are allowed for this; null before the first one.", 1000),
        "roundMs": ("How long a round over all repositories takes at present.", 79200000),
    },
}
