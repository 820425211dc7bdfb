"""/submit: the form, and its submission without JavaScript. Errors appear next to their field; input is kept."""

import email.policy
from email.parser import BytesParser
from typing import Any, NamedTuple

from functions.html.responses import page, reject_cross_site_form, see_other
from functions.html.zip_upload import unzipped
from functions.http.answer import STATUS, Answer
from functions.http.request import Request
from shared.access.limits import take_from_limit
from shared.db import get_settings, now
from shared.errors import InvalidRequest, RequestError, WrongMediaType
from shared.submissions import intake
from shared.submissions.check import CheckedFiles, check_bundle
from shared.submissions.skill_source import require_usable
from shared.submissions.submission_store import get_submission
from shared.web import labels
from shared.web.findings import by_file
from shared.web.form_words import FORM_SENTENCES, in_form_words

SENT_BY = "the website"
# Error code -> the form field it is about.
REPO_FIELDS = {
    "invalid_skill_path": "skillPath",
    "no_skill_md": "skillPath",
    "invalid_front_matter": "skillPath",
    "invalid_skill_name": "skillName",
}
UPLOAD_FIELDS = {"invalid_skill_name": "name", "name_taken": "uploadToken", "wrong_upload_token": "uploadToken"}


CHOSEN = "skill-"  # and a number: the field of a skill in the list of a repository
MAX_CHOSEN = 50


class SubmitResult(NamedTuple):
    """Of one skill among several."""

    name: str
    note: str
    url: str | None = None


class Upload(NamedTuple):
    fields: dict[str, str]
    files: list[tuple[str, bytes]]


async def show(request: Request) -> Answer:
    """The command-line client opens this page with `repo` (owner/repo) and `skill`, the page of a submission with
    `repoUrl` and `skillPath`, or for an upload with `name`."""
    request.allow_query("repoUrl", "repo", "skill", "skillPath", "name")
    repo = request.query.get("repo")
    repo_url = f"https://{get_settings().github_host}/{repo}" if repo else request.query.get("repoUrl", "")
    given = {"skillName": "skill", "skillPath": "skillPath", "name": "name"}
    typed = {field: request.query[sent] for field, sent in given.items() if request.query.get(sent)}
    return _page(request, {"repoUrl": repo_url} | typed)


async def track(request: Request) -> Answer:
    """The URL that the command-line client prints for a submission."""
    request.allow_query()
    submission = await get_submission(request.path["id"])
    return see_other(f"/submissions/{submission.id}")


async def submit(request: Request) -> Answer:
    reject_cross_site_form(request)
    if request.media_type == "multipart/form-data":
        return await _submit_upload(request)
    form = request.form()
    repo_url = form.get("repoUrl", "").strip()
    name, path = (form.get(field, "").strip() or None for field in ("skillName", "skillPath"))
    try:
        await take_from_limit("submit", request.source_ip)
        if chosen := [path for field, path in form.items() if field.startswith(CHOSEN)]:
            return await _submit_chosen(request, repo_url, chosen)
        accepted = await intake.submit_repo(repo_url, name, path, SENT_BY, None, request.source_ip)
    except RequestError as error:
        return _rejected(request, form, error, REPO_FIELDS.get(error.code, "repoUrl"))
    return see_other(address_of(accepted))


async def _submit_chosen(request: Request, repo_url: str, paths: list[str]) -> Answer:
    """Those ticked in the list of a repository with several skills."""
    skills = [intake.RequestedSkill(None, path) for path in paths[:MAX_CHOSEN]]
    outcomes = await intake.submit_several(repo_url, skills, SENT_BY, None, request.source_ip)
    if isinstance(outcomes[0], intake.Accepted) and len(outcomes) == 1:
        return see_other(address_of(outcomes[0]))
    return _page(request, {}, results=[_result(*each) for each in zip(paths, outcomes, strict=False)])


def _result(path: str, outcome: intake.Accepted | intake.NotAccepted) -> SubmitResult:
    if isinstance(outcome, intake.NotAccepted):
        return SubmitResult(path, FORM_SENTENCES.get(outcome.code, outcome.message))
    note = labels.SUBMISSION_FLAGS[outcome.flag or "accepted"]
    return SubmitResult(outcome.submission.skill_name, note, address_of(outcome))


def address_of(accepted: intake.Accepted) -> str:
    """The page of a submission; for one that was submitted before, it says what that means."""
    return f"/submissions/{accepted.submission.id}" + (f"?sent={accepted.flag}" if accepted.flag else "")


async def _submit_upload(request: Request) -> Answer:
    upload = read_upload(request)
    name, token = upload.fields.get("name", "").strip(), upload.fields.get("uploadToken", "").strip() or None
    is_check = upload.fields.get("action") == "check"
    try:
        await take_from_limit("check" if is_check else "submit", request.source_ip)
        files = without_common_folder(unzipped(upload.files))
        if is_check:
            return _page(request, upload.fields, checked=_shown(await check_bundle(files)))
        warnings = require_usable(name, files)
        accepted = await intake.submit_bundle(name, files, token, SENT_BY, None, request.source_ip)
    except RequestError as error:
        return _rejected(request, upload.fields, error, UPLOAD_FIELDS.get(error.code, "files"))
    if accepted.flag:
        return see_other(address_of(accepted))
    shown = {
        "title": labels.SUBMISSION_FLAGS["accepted"],
        "id": accepted.submission.id,
        "skill_name": accepted.submission.skill_name,
        "upload_token": accepted.upload_token,
        "warning": labels.yaml_problem(warnings),
    }
    return _page(request, {}, accepted=shown)


def _shown(checked: CheckedFiles) -> dict[str, Any]:
    return {"report": checked.report, "groups": by_file(checked.report.findings, checked.files)}


def read_upload(request: Request) -> Upload:
    """multipart/form-data, parsed by the standard library's mail parser: the format is the same."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode("latin-1", errors="replace")
    message = BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    if not message.is_multipart():
        raise WrongMediaType("The form data is malformed.")
    upload = Upload({}, [])
    for part in message.iter_parts():
        field = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if part.get_filename() is None:
            upload.fields[str(field)] = _text(str(field), content)
        elif part.get_filename():
            upload.files.append((str(part.get_filename()), bytes(content or b"")))
    return upload


def without_common_folder(files: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Browsers prefix every path with the name of the chosen folder."""
    tops = {path.partition("/")[0] for path, _ in files}
    if len(tops) != 1 or any("/" not in path for path, _ in files):
        return files
    return [(path.partition("/")[2], content) for path, content in files]


def _text(name: str, content: Any) -> str:
    try:
        return bytes(content or b"").decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name[:80]!r} is not valid text (UTF-8).", code="invalid_bundle") from None


def _rejected(request: Request, typed: dict[str, str], error: RequestError, field: str) -> Answer:
    paths = (error.details or {}).get("paths", ()) if error.code == "several_skills" else ()
    listed: dict[str, Any] = {"choices": paths[:MAX_CHOSEN], "unlisted": len(paths[MAX_CHOSEN:])}
    return _page(request, typed, {field: in_form_words(error)}, STATUS[type(error)], **listed)


def _page(
    request: Request, typed: dict[str, str], problems: dict[str, str] | None = None, status: int = 200, **more: Any
) -> Answer:
    shown = {"accepted": None, "checked": None, "choices": (), "unlisted": 0, "results": ()} | more
    allowed = get_settings().allow_uploads
    return page(
        request, "submit.html", now(), status, typed=typed, problems=problems or {}, uploads_allowed=allowed, **shown
    )
