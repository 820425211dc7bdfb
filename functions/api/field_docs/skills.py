"""Fields of the marketplace: skills, their versions and files, what clients report, and the public blocklist."""

from functions.api.field_docs.responses import COMMIT, HASH, REPO, SKILL, SUBMISSION_ID, TIME
from functions.http.field_docs import Docs, SchemaDocs

_CERT = ("`SCANNED`: the scan passed; `VERIFIED`: a model agreed; `CERTIFIED`: a reviewer or the vendor.", "VERIFIED")
_PLATFORM = ("The operating system of the client.", "linux-x64")
_CLI = ("The version of the client.", "1.4.0")
_SOURCE = ("The client that sends this.", "cli")
_INSTALL_REPO = ("The repository it was installed from; limits the match to its skills.", REPO)

_ITEM: Docs = {
    "name": ("The full name: owner, repository and skill.", SKILL),
    "author": ("The owner of its repository; `uploads` for uploads.", "acme"),
    "description": ("From its front matter.", "Extracts text and tables from PDF files."),
    "certTier": _CERT,
    "trustTier": ("From `T0`, blocked, to `T4`: 80 points or more and approved by a reviewer.", "T3"),
    "trustScore": ("0 to 100: the sum of points for scan, model, provenance and community.", 78),
    "certScore": ("0 to 100 from the scan of its current version.", 96),
    "currentVersion": ("The newest version that is not yanked.", "1.2.0"),
    "repoUrl": ("Its repository on GitHub; null for an upload.", REPO),
    "ownerSlug": ("The owner part of the repository that clients install from; null for an upload.", "acme"),
    "repoSlug": ("The repository part of it; null for an upload.", "tools"),
    "skillSlug": ("The last part of its name.", "pdf"),
    "vskillInstalls": ("Installations that clients of this platform counted.", 412),
    "githubStars": ("Stars of its repository; null if GitHub was not asked yet.", 1280),
    "isBlocked": ("True: it was found to be harmful and cannot be installed.", False),
    "isTainted": ("True: another skill of the same author is blocked.", False),
    "category": ("From its front matter; `other` without one.", "documents"),
    "tags": ("From its front matter.", ["pdf", "tables"]),
    "license": ("As its front matter states it.", "MIT"),
    "capabilities": ("What it can do, as declared or observed.", ["network"]),
}
_VERSION: Docs = {
    "runUrl": ("The page of the run that published it.", f"/submissions/{SUBMISSION_ID}/runs/1"),
    "version": ("The version's number.", "1.2.0"),
    "certTier": _CERT,
    "certScore": ("0 to 100 from the scan of this version.", 96),
    "createdAt": ("When it was published, in UTC.", TIME),
    "contentHash": ("SHA-256 over the names and bytes of its files.", HASH),
    "diffSummary": ("What changed since the version before; null for the first.", "1 file changed"),
    "newPermissions": ("What this version may do and the version before it could not.", []),
    "isYanked": "True: withdrawn; still shown, and not offered for installation. Absent if false.",
    "yankReason": "Why it was withdrawn; absent unless it was.",
    "isBlocked": "True: its content is on the blocklist. Absent if false.",
    "blockReason": "Why it is blocked; absent unless it is.",
    "artifacts": (
        "What can be downloaded, by packaging; absent until it is built.",
        {"zip": {"sha256": HASH, "size": 4210, "shasum": "", "integrity": ""}},
    ),
}

FIELDS: SchemaDocs = {
    "SkillItem": _ITEM,
    "SkillDetail": _ITEM
    | {
        "withdrawn": "Why it can no longer be installed, if its owner withdrew it.",
        "deprecated": "The owner's notice to its users, if it is deprecated.",
        "transferredTo": "The name under which new versions appear, if it was transferred.",
        "transferredFrom": "The name it had before a transfer.",
        "changedHands": "Present if true: its repository's name leads to another one, so it is not offered.",
        "sourceGone": "Present if true: its repository is deleted or private.",
        "displayName": ("The name as its front matter spells it.", "PDF"),
        "content": ("The text of its SKILL.md; null if it is blocked.", "---\nname: pdf\n---\n# PDF\n"),
        "sha": ("The commit that was scanned; null for an upload.", COMMIT),
        "provenanceVerified": ("True: its files were read from the repository it names.", True),
        "copyOf": ("The skill that published exactly this content here first.", None),
        "versions": ("How many versions were published.", 3),
        "security": "What external scanners say.",
        "dailyInstalls": (
            "Installations on each of the last 90 days in UTC, oldest first; null: not known at the moment.",
            [0] * 88 + [3, 5],
        ),
        "permissions": (
            "Hosts, paths, variables and commands that the scan observed; null: not recorded.",
            ["network: api.example.com"],
        ),
        "compatibility": ("The agents it is made for, as its front matter states it.", None),
        "allowedTools": ("The tools it asks for in its front matter.", ["Read", "Bash"]),
        "isYanked": "True: every version is withdrawn. Absent if false.",
        "blockReason": "Why it is blocked; absent unless it is.",
    },
    "SkillAnswer": {"skill": "The skill."},
    "SkillList": {
        "skills": "One page of the list.",
        "stale": ("Names of skills that could not be read.", []),
    },
    "Pagination": {"hasMore": ("True if there are more results than `limit`.", False)},
    "SearchAnswer": {
        "results": "The best matches first.",
        "pagination": "Whether there are more.",
        "degraded": "True if something could not be read. Absent if false.",
    },
    "ProviderBody": {
        "provider": ("The scanner.", "example-scanner"),
        "status": ("`PENDING`, then `PASS` or `FAIL`; `TIMED_OUT` if it never finished.", "PASS"),
        "verdict": ("What the scanner concluded; null until it has.", "PASS"),
        "score": ("0 to 100 as the scanner reported it; null if it gave none.", 90),
        "criticalCount": ("Critical findings; one is enough to block a skill.", 0),
        "reportUrl": ("The scanner's own report; null if it published none.", "https://scanner.example.com/r/1"),
    },
    "SecurityBody": {
        "overallVerdict": ("The worst status of all scanners; null if no scan was requested.", "PASS"),
        "reportUrl": ("The page that shows all results; null if no scan was requested.", f"/skills/{SKILL}/security"),
        "providers": "One entry per scanner.",
    },
    "VersionItem": _VERSION,
    "VersionDetail": _VERSION
    | {
        "name": ("The full name of the skill.", SKILL),
        "sha": ("The commit that was scanned; null for an upload.", COMMIT),
        "content": ("The SKILL.md of this version; null if it is blocked.", "---\nname: pdf\n---\n# PDF\n"),
        "files": "Its files; empty if it is blocked.",
        "capabilities": (
            "What it can do, declared or observed, each with the hosts, paths, variables and commands that show it, by"
            " file and line; null if it is blocked or its scan is not stored.",
            [],
        ),
    },
    "VersionList": {"versions": "Newest first."},
    "Artifact": {
        "sha256": ("Of the archive's bytes, in hex.", HASH),
        "size": ("The archive's length in bytes.", 4210),
        "shasum": "SHA-1 in hex, for npm clients; empty for other packagings.",
        "integrity": "SHA-512 in the format of subresource integrity, for npm clients; empty for other packagings.",
    },
    "ContentFile": {
        "path": ("Relative to the skill's folder.", "SKILL.md"),
        "size": ("Its length in bytes.", 1840),
    },
    "VersionDiff": {
        "from": ("The older version.", "1.1.0"),
        "to": ("The newer version.", "1.2.0"),
        "diffSummary": ("The change in a few words.", "1 file changed"),
        "contentDiff": (
            "A unified diff of all files; empty if nothing changed.",
            "--- a/SKILL.md\n+++ b/SKILL.md\n@@ -1 +1 @@\n-old\n+new\n",
        ),
    },
    "VersionComparison": {
        "from": ("The older version.", "1.1.0"),
        "to": ("The newer version.", "1.2.0"),
        "files": "The files that differ.",
    },
    "FileDiff": {
        "filename": ("Relative to the skill's folder.", "SKILL.md"),
        "status": ("`added`, `removed` or `modified`.", "modified"),
        "additions": ("Lines that were added.", 1),
        "deletions": ("Lines that were removed.", 1),
        "patch": ("The hunks of a unified diff; null if it is not text or too long to show.", "@@ -1 +1 @@\n-a\n+b\n"),
    },
    "VersionFiles": {
        "name": ("The full name of the skill.", SKILL),
        "version": ("The version; the real number if `latest` was asked for.", "1.2.0"),
        "contentHash": ("SHA-256 over the names and bytes of all files.", HASH),
        "files": "Every file, in the order of its path.",
    },
    "VersionFile": {
        "path": ("Relative to the skill's folder.", "SKILL.md"),
        "size": ("Its length in bytes.", 1840),
        "sha256": ("Of its bytes, in hex.", HASH),
        "scanned": ("True if the scan read it as text; null if the scan of this version is not stored.", True),
        "skipped": ("Why it was not read as text; null if it was.", None),
    },
    "HealthAnswer": {
        "isArchived": ("Its owner has archived it; null: not known.", False),
        "head": ("The newest commit that was seen of the default branch; null: not known.", COMMIT),
        "changedHands": ("The name leads to another repository than was scanned.", False),
        "status": ("`ONLINE`, `STALE` without commits for long, or `OFFLINE`; null: not known yet.", "ONLINE"),
        "checkedAt": ("When GitHub was last asked, in UTC.", TIME),
        "lastCommitAt": ("The repository's last push, in UTC.", TIME),
        "githubStars": ("Stars of the repository.", 1280),
        "repoUrl": ("The repository; null for an upload.", REPO),
    },
    "CheckUpdates": {
        "skills": "The skills that are installed; at most 100.",
        "platform": _PLATFORM,
        "cliVersion": _CLI,
    },
    "InstalledVersion": {
        "name": ("The full name, or the last part of it.", SKILL),
        "currentVersion": ("The version that is installed.", "1.1.0"),
        "sha": ("The commit that is installed, if the client knows it.", COMMIT),
    },
    "Updates": {
        "results": "One entry per skill that was sent, in the same order.",
        "degraded": "True if something could not be read. Absent if false.",
    },
    "Update": {
        "notice": "The owner's notice to its users, if anything.",
        "successor": "The skill to use instead, if there is one.",
        "changedHands": "Present if true: its repository is another one now.",
        "name": ("As it was sent.", SKILL),
        "installed": ("The version that was sent.", "1.1.0"),
        "latest": ("The version to install; null if the name matches no installable skill, or several.", "1.2.0"),
        "updateAvailable": ("True if `latest` is newer than what is installed.", True),
        "versionBump": ("`major`, `minor` or `patch`; null without an update.", "minor"),
        "certTier": _CERT,
    },
    "Install": {
        "repoUrl": _INSTALL_REPO,
        "version": ("The version that was installed.", "1.2.0"),
        "source": _SOURCE,
        "platform": _PLATFORM,
        "cliVersion": _CLI,
    },
    "InstalledSkill": {
        "skillName": ("The full name, or the last part of it.", SKILL),
        "repoUrl": _INSTALL_REPO,
        "version": ("The version that was installed.", "1.2.0"),
    },
    "Installs": {
        "skills": "What was installed. Each skill counts once.",
        "source": _SOURCE,
        "platform": _PLATFORM,
        "cliVersion": _CLI,
    },
    "InstallsCounted": {
        "ok": ("Always true: the request was counted.", True),
        "skipped": "Names that match no skill, several, or one that cannot be installed. Absent if there are none.",
    },
    "ReportBody": {
        "type": ("What is wrong with the skill.", "malicious"),
        "description": ("What you saw, and where.", "scripts/setup.sh uploads the environment to a paste site."),
    },
    "Reported": {
        "ok": ("Always true: the report was stored.", True),
        "id": ("Identifies the report.", "2026-01-15T09:30:00.000000Z-5f2c9b1e"),
    },
    "Blocklist": {
        "entries": "Every entry, newest first.",
        "lastUpdated": ("When an entry was last added; null if there is none.", TIME),
    },
    "Entry": {
        "skillName": ("The skill it blocks, by full name or by its last part.", "acme/tools/stealer"),
        "sourceUrl": ("Only from this repository; absent if it applies to every source.", REPO),
        "contentHash": "Only this content, wherever it comes from; absent if it applies to any content.",
        "threatType": ("The kind of threat.", "credential-theft"),
        "severity": ("`low`, `medium`, `high` or `critical`.", "critical"),
        "reason": ("What was found.", "Sends ~/.ssh/id_rsa to a host outside."),
        "evidenceUrls": ("Pages that document it.", ["https://example.com/advisory/1"]),
        "discoveredAt": ("When it was added, in UTC.", TIME),
    },
    "Checked": {
        "changedHands": "Present if true: its repository's name leads to another one than was scanned.",
        "blocked": ("True if an entry of the blocklist matches: do not install it.", False),
        "entry": "The entry that matches; absent unless it is blocked.",
        "rejected": ("True if the latest submission of this skill failed verification.", False),
        "rejection": "That submission; absent unless it was rejected.",
        "tainted": ("True if another skill of the same author is blocked.", False),
        "taintReason": ("Which one, and why; null unless it is tainted.", None),
    },
    "Rejection": {
        "skillName": ("The skill that was rejected.", SKILL),
        "state": ("The state of the submission.", "REJECTED"),
        "reason": ("Why it was rejected.", "Downloads and runs code from outside."),
        "score": ("0 to 100 from its scan.", 12),
        "rejectedAt": ("When it was rejected, in UTC.", TIME),
    },
}
