"""Fields of what owners prove, set and appeal against."""

from functions.api.field_docs.responses import HASH, SKILL, SUBMISSION_ID, TIME
from functions.http.field_docs import Docs, SchemaDocs

_REPO: Docs = {
    "repo": ("The repository that is proven, in lower case.", "acme/tools"),
    "repoId": ("Its numeric id on GitHub.", 583231),
}
_SET: Docs = {
    "withdrawn": ("Why its owner withdrew it; null if it is not withdrawn.", None),
    "deprecated": ("The owner's notice to its users; null if it is not deprecated.", None),
    "transferredTo": ("The name under which new versions appear; null if it was not transferred.", None),
    "transferredFrom": ("The name it had before a transfer; null if there was none.", None),
}
_POINT: Docs = {
    "why": ("Why it is wrong, in the owner's words.", "It is an example in a lesson."),
    "rule": ("The rule of the finding; empty for the decision itself.", "EX-CREDENTIAL-SENT"),
    "path": ("The file of the finding.", "SKILL.md"),
    "line": ("Its line; 0: all findings of the rule in this file.", 12),
    "excerpt": ("The text that the rule found.", "cat ~/.aws/credentials"),
}
_APPEALED: Docs = {
    "submissionId": ("The submission it is about.", SUBMISSION_ID),
    "skillName": ("The skill it is about.", SKILL),
    "contentHash": ("The content it is about; null if none was fetched.", HASH),
    "ruleSet": ("The rules that decided; null if it was not scanned.", "2026.01"),
    "answeredAt": ("When it was answered, in UTC; null while it is open.", TIME),
}
_TOKEN: Docs = {
    "id": ("Identifies the token in lists; it is not the token.", "9f86d081884c"),
    "label": ("What the token is for.", "release workflow"),
    "expiresAt": ("When it ends, in UTC.", TIME),
}

_DEVICE_ID = "k3Jt7xV9bN1mC5qW2eR4yU6iO8pA0sD1fG3hL5zX7cB"
_DEVICE: Docs = {
    "repo": _REPO["repo"],
    "userCode": ("The code to enter on GitHub.", "WDJB-MJHT"),
    "verificationUri": ("Where to enter it.", "https://github.com/login/device"),
    "expiresAt": ("Until when the code can be entered, in UTC.", TIME),
    "intervalSeconds": ("How long to wait before asking again.", 5),
}

FIELDS: SchemaDocs = {
    "UploadToken": {"uploadToken": ("The token of an upload: sent the current one, received the new one.", HASH)},
    "Deprecation": {
        "sentence": ("The owner's notice to its users.", "It is no longer maintained."),
        "at": ("When it was deprecated, in UTC.", TIME),
        "successor": ("The skill to use instead; null if none is named.", SKILL),
    },
    "ChallengeAnswer": {
        **_REPO,
        "challengeId": (
            "A secret of yours: it is exchanged for the token.",
            "x8Qm2vR4kT6wZ1nB3cD5fG7hJ9lP0sA2eU4iO6yW8qE",
        ),
        "path": ("The file to commit, at the top of the repository.", ".vskill-owner"),
        "word": ("Its only line.", "vskill-owner-0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
        "expiresAt": ("Until when the challenge can be met, in UTC.", TIME),
    },
    "ProofBody": {"challengeId": ("`challengeId` from the response.", "x8Qm2vR4kT6wZ1nB3cD5fG7hJ9lP0sA2eU4iO6yW8qE")},
    "DeviceOpened": {
        **_DEVICE,
        "repoId": _REPO["repoId"],
        "deviceId": ("A secret of yours: it is exchanged for the token.", _DEVICE_ID),
    },
    "DevicePending": _DEVICE,
    "DeviceProofBody": {"deviceId": ("`deviceId` from the response.", _DEVICE_ID)},
    "NewOwnerToken": {
        **_REPO,
        **_TOKEN,
        "token": ("Send it as a bearer token.", "vso_583231_x8Qm2vR4kT6wZ1nB3cD5fG7hJ9lP0sA2eU4iO6yW8qE"),
    },
    "OwnerTokens": {**_REPO, "tokens": "All tokens of the repository, newest first."},
    "TokenRow": {
        **_TOKEN,
        "isSession": ("True for the session of a browser that proved the repository.", False),
        "revokedAt": ("When it was revoked, in UTC; null if it is valid.", None),
    },
    "OwnedSubmissions": {
        "repo": _REPO["repo"],
        "submissions": "The submissions of the repository, by path.",
        "stale": ("Ids of records that could not be read.", []),
    },
    "OwnedSubmission": {"submission": "As in lists.", "skill": "What it published; null if nothing."},
    "OwnedSkill": {
        **_SET,
        "name": ("Its full name.", SKILL),
        "currentVersion": ("The version that clients install.", "1.0.1"),
        "submissionId": ("The submission that published it.", SUBMISSION_ID),
        "isBlocked": ("True if it is blocked.", False),
        "isYanked": ("True if every version is yanked or withdrawn.", False),
    },
    "VersionOrSkill": {"version": ("One version; without it the whole skill.", "1.0.1")},
    "DeprecateBody": {
        "sentence": ("Shown to its users.", "It is no longer maintained."),
        "successor": ("A skill that can be installed here.", SKILL),
    },
    "TransferBody": {
        "targetToken": (
            "An owner token of the other repository.",
            "vso_1000_x8Qm2vR4kT6wZ1nB3cD5fG7hJ9lP0sA2eU4iO6yW8qE",
        ),
        "skillSlug": ("Its name there; the same one unless it is sent.", "pdf"),
    },
    "Appeal": {
        **_APPEALED,
        "id": ("Identifies the appeal.", "1768469400000-1a2b3c4d"),
        "openedBy": ("The owner who appeals.", "owner:acme/tools"),
        "openedAt": ("When it was opened, in UTC.", TIME),
        "points": "What it says, finding by finding.",
        "state": ("`open`, `upheld`, or `overturned` if every point was right.", "open"),
        "answer": ("The reviewer's answer; null while it is open.", None),
        "answeredBy": ("Who answered; null while it is open.", None),
        "run": ("The run of the submission that it is about; 0 if an older release accepted that.", 1),
        "recordVersion": ("Rises with every change.", 1),
    },
    "AppealPoint": {**_POINT, "state": ("`open`, `upheld` or `overturned`.", "open")},
    "AppealRequest": {"points": "Why each finding is wrong."},
    "SentPoint": {name: doc for name, doc in _POINT.items() if name != "excerpt"},
    "AppealList": {"appeals": "Oldest first."},
    "AppealAnswer": {"overturned": ("Places of the points that are right, from 0.", [0])},
    "FalseAlarms": {"falseAlarms": "Findings that reviewers overturned, oldest first."},
    "FalseAlarm": {**_POINT, **_APPEALED, "answer": ("The reviewer's answer.", "It is shown, not run.")},
}
