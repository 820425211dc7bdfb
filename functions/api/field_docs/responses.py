"""What means the same in every schema, path and query parameters, and responses that no schema describes."""

import json

from functions.http.field_docs import Docs

TIME = "2026-01-15T09:30:00Z"
SUBMISSION_ID = "sub_01jcv2m8f0r4k9x3w7n5t1q6hz"
SKILL = "acme/tools/pdf"
REPO = "https://github.com/acme/tools"
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

ANY_FIELD: Docs = {
    "cursor": ("Send it as `cursor` to get the next page; null on the last one.", None),
    "degraded": ("True if something could not be read: such values are null, and the rest is complete.", False),
    "unreadable": ("Ids of records that exist and could not be read; repeat the request to get them.", []),
    "createdAt": ("When it was created, in UTC.", TIME),
    "updatedAt": ("When it last changed, in UTC.", TIME),
    "generatedAt": ("When these figures were read, in UTC.", TIME),
    "count": ("The number of entries in this response.", 1),
    "reason": ("Why you do this. It is stored in the audit log under the name of your token.", "Checked by hand."),
}
PARAMETERS: Docs = {
    "appeal": ("The id of an appeal.", "1768469400000-1a2b3c4d"),
    "limit": "How many entries a page has at most.",
    "cursor": "`cursor` of the previous page.",
    "sort": "The order of the list.",
    "month": ("The calendar month in UTC; without it the current one.", "2026-01"),
    "state": "`open`: only reports without a decision; `all`: every report.",
    "runs/{run}": ("The number of a run; 1 is the first.", "1"),
    "submissions/{id}": ("The id of a submission.", SUBMISSION_ID),
    "stuck/{id}": ("The id of a submission that is listed as stuck.", SUBMISSION_ID),
    "dead-letters/{id}": ("The id of a dead letter, as listed.", "dl_5f2c9b1e"),
    "reports/{id}": ("The id of a report, as listed.", "rep_01jcv2m8f0r4k9x3w7n5t1q6hz"),
    "tokens/{id}": ("The id of a token, as listed: a prefix of its hash.", "3fa94c1b2d60"),
    "skills/{owner}": ("The owner of the skill's repository; `uploads` for uploads.", "acme"),
    "{owner}/{repo}": ("The skill's repository; `anonymous` for uploads.", "tools"),
    "{repo}/{skill}": ("The skill's folder in its repository.", "pdf"),
    "skills/{name}": ("The skill's folder, if only one skill has it.", "pdf"),
    "versions/{version}": ("A published version, as listed by `versions`.", "1.2.0"),
    "files/{path}": ("The path of a file in the skill, as listed by `files`.", "SKILL.md"),
    "from": ("The older version.", "1.1.0"),
    "to": ("The newer version.", "1.2.0"),
}
MEDIA = {
    "application/zip": "(the bytes of a ZIP archive)",
    "application/gzip": "(the bytes of a gzipped tar archive)",
    "application/octet-stream": "(the bytes of a file that is not text)",
    "text/plain": "---\nname: pdf\ndescription: Extracts text and tables from PDF files.\n---\n",
    "image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg"><text y="14">vskill verified</text></svg>',
    "text/event-stream": f"retry: 5000\n\nid: 2026-01-15T09:30:00.000000Z#{SUBMISSION_ID}#7\nevent: submission\n"
    + f"data: {json.dumps({'id': SUBMISSION_ID, 'skillName': 'pdf', 'state': 'PUBLISHED', 'version': 7})}\n\n",
    "application/sarif+json": {
        "version": "2.1.0",
        "runs": [{"tool": {"driver": {"name": "vskill", "version": "1.0.0"}}, "results": []}],
    },
}
OPERATIONS = {
    "GET /api/v1/openapi.json": {"openapi": "3.1.0", "info": {"title": "vskill platform", "version": "1.0.0"}},
    "GET /api/v1/skills/{owner}/{repo}/{skill}/versions/{version}/receipt": {
        "payloadType": "application/vnd.in-toto+json",
        "payload": "eyJfdHlwZSI6Imh0dHBzOi8vaW4tdG90by5pby9TdGF0ZW1lbnQvdjEifQ==",
        "signatures": [{"keyid": "3f1c0a9d", "sig": "MEUCIQDx"}],
    },
}
