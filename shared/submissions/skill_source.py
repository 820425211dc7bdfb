"""Where skills come from: names, addresses and files as they are sent, checked and normalized."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from shared.db import get_content, get_github, get_settings
from shared.errors import Conflict, Forbidden, InvalidRequest, NeedsPerson, Refused, TooLarge, Unprocessable
from shared.evidence.blocklist import find_block
from shared.github.archive import Anomaly
from shared.github.client import FoundSkill, GitHub, GitHubRepo, PinnedRepo
from shared.records.submissions import Submission
from shared.scanner.file_names import clashes, leaves_its_folder
from shared.scanner.file_text import text_of
from shared.storage.content import Files, content_hash_of
from shared.timing import API_TIMEOUT

UPLOADS = "uploads/anonymous"
MAX_BUNDLE = 4 * 1024 * 1024
MAX_FILES = 500
MAX_PATH = 500  # bytes; a sort key takes 1,024
MAX_READ = 20
# Path segments that follow a skill's name in the API, so they cannot be one.
RESERVED_SLUGS = frozenset(
    {"versions", "badge", "security", "installs", "search", "repo-health", "reports", "check-updates", "alias"}
)
SLUG_PATTERN = r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?"
_SLUG = re.compile(SLUG_PATTERN)
_OWNER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,37}[A-Za-z0-9])?")
_REPO = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Repo(NamedTuple):
    owner: str
    name: str
    tree: str | None = None  # what follows /tree/: a ref, then an optional path; only GitHub knows where one ends
    host: str = "github.com"

    @property
    def url(self) -> str:
        return f"https://{self.host}/{self.owner}/{self.name}"

    @property
    def source(self) -> str:
        return self.url.lower()


def parse_repo_url(text: str, host: str = "github.com") -> Repo:
    """Rebuilt from its parts, never passed on as it was sent: no other host is ever contacted."""
    parts = _split(text.strip(), host)
    path = [unquote(part) for part in parts.path.split("/") if part]
    if not _is_at(host, parts) or len(path) < 2:
        raise _not_a_repo("This is not the address of a GitHub repository.", host)
    owner, name = path[0], re.sub(r"\.git\Z", "", path[1], flags=re.IGNORECASE)
    if not _OWNER.fullmatch(owner) or not _REPO.fullmatch(name) or name in (".", ".."):
        raise _not_a_repo("GitHub has no repository of that name.", host)
    if owner.lower() == "uploads":
        raise _not_a_repo("The owner name `uploads` is reserved for uploaded bundles.", host)
    return Repo(owner, name, _tree(path[2:], host), host)


def is_uploads_address(text: str, host: str) -> bool:
    """Whether a client took the name of an upload for the address of a repository."""
    parts = _split(text.strip(), host)
    path = re.sub(r"\.git\Z", "", unquote(parts.path).strip("/"), flags=re.IGNORECASE)
    return _is_at(host, parts) and path.lower() == UPLOADS


def _split(text: str, host: str) -> SplitResult:
    try:
        return urlsplit(text if "://" in text else f"https://{text}")
    except ValueError:  # half an IPv6 address, letters that normalize to a slash
        raise _not_a_repo("This is not an address.", host) from None


def _is_at(host: str, parts: SplitResult) -> bool:
    return parts.scheme in ("https", "http") and parts.netloc.lower() in (host, f"www.{host}")


def _tree(rest: Sequence[str], host: str) -> str | None:
    if not rest:
        return None
    # Joined first: a part may have been sent with its slashes quoted.
    if rest[0] != "tree" or len(rest) < 2 or not _is_safe_path("/".join(rest).split("/")):
        raise _not_a_repo(
            "Only the repository itself or a folder in it (/tree/{branch}/{path}) can be submitted.", host
        )
    return "/".join(rest[1:])


def _not_a_repo(message: str, host: str) -> InvalidRequest:
    return InvalidRequest(f"{message} Send one like https://{host}/owner/repo.", code="invalid_repo_url")


def parse_skill_path(text: str) -> str:
    if text.strip() == ".":
        return "."
    parts = [part for part in text.strip().split("/") if part]
    if parts and parts[-1].lower() == "skill.md":
        parts.pop()
    if not _is_safe_path(parts):
        raise InvalidRequest(
            "`skillPath` is the folder of a SKILL.md inside the repository, like skills/pdf.", code="invalid_skill_path"
        )
    return "/".join(parts) or "."


def _is_safe_path(parts: Sequence[str]) -> bool:
    return all(map(_is_safe_part, parts)) and len("/".join(parts).encode()) <= MAX_PATH


def _is_safe_part(part: str) -> bool:
    return part not in ("", ".", "..") and not {"/", "\\"} & set(part) and part.isprintable()


def parse_slug(text: str) -> str:
    if not _SLUG.fullmatch(text) or text in RESERVED_SLUGS or ".." in text:
        raise InvalidRequest(
            f"{text[:80]!r} cannot be a skill's name. Use 1 to 64 lower-case letters, digits and hyphens,"
            " starting and ending with a letter or digit, and none of the words the API uses itself.",
            code="invalid_skill_name",
        )
    return text


def read_bundle(files: Sequence[tuple[str, str | bytes]]) -> dict[str, bytes]:
    """Uploaded files by path. Raises when two parsers could read the bundle differently."""
    if not files or len(files) > MAX_FILES:
        raise InvalidRequest(f"A skill has 1 to {MAX_FILES} files.", code="invalid_bundle")
    bundle: dict[str, bytes] = {}
    for path, content in files:
        if len(path) > 300 or not _is_safe_path(path.split("/")) or leaves_its_folder(path):
            raise InvalidRequest(f"{path[:80]!r} is not a path inside the skill's folder.", code="invalid_bundle")
        bundle[path] = _encode(path, content)
    _refuse_same_places([path for path, _ in files])
    _require_page(bundle)
    if sum(map(len, bundle.values())) > MAX_BUNDLE:
        raise TooLarge("A skill holds at most 4 MB. Leave out what it does not need.")
    return bundle


def require_usable(name: str, files: Sequence[tuple[str, str | bytes]]) -> tuple[str, ...]:
    """Of an upload, what no worker, reviewer or judge could accept is refused at once. Returns what else is wrong with
    its front matter, for its author."""
    refuse_uploads_where_off()
    parse_slug(name)
    return require_usable_page(read_bundle(files)["SKILL.md"])


def require_usable_page(skill_md: bytes) -> tuple[str, ...]:
    from shared.scanner.front_matter import read_front_matter  # here: only this question needs YAML

    front_matter = read_front_matter(text_of(skill_md))
    if front_matter.errors:
        raise Unprocessable(unusable(front_matter.errors), code="invalid_front_matter")
    return front_matter.warnings


def refuse_uploads_where_off() -> None:
    if not get_settings().allow_uploads:
        raise Forbidden("This platform accepts skills from GitHub only. Send `repoUrl` instead.", code="uploads_off")


def unusable(problems: Sequence[str]) -> str:
    return f"SKILL.md cannot be used: {'; '.join(problems)}. Start it with `---`, `name:`, `description:`, `---`."


def _require_page(bundle: Files) -> None:
    if "SKILL.md" not in bundle:
        raise Unprocessable(
            "There is no SKILL.md at the top level. It has to be there, not in a folder.",
            code="no_skill_md",
        )


def _refuse_same_places(paths: Sequence[str]) -> None:
    """Two files that some disk would take for one, or a file where another needs a folder."""
    for path in clashes(paths):
        raise InvalidRequest(f"{path[:80]!r} is there twice.", code="invalid_bundle")


def _encode(path: str, content: str | bytes) -> bytes:
    try:
        return content if isinstance(content, bytes) else content.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{path[:80]!r} is not valid text (UTF-8).", code="invalid_bundle") from None


class Fetched(NamedTuple):
    """The files to judge, and where they really are: an address may name a branch, a skill or nothing at all."""

    files: Files
    path: str
    skill_name: str
    anomalies: tuple[Anomaly, ...] = ()
    unscanned: str = ""
    place: PinnedRepo | None = None  # None: an upload


class UnresolvedPath(NamedTuple):
    """A branch or a name that only GitHub can resolve to a folder. Only such a path starts with a slash."""

    tree: str | None = None  # what follows /tree/ in the address
    name: str | None = None

    @property
    def path(self) -> str:
        if self.name is None and self.tree is not None:
            return f"/tree/{self.tree}"
        return f"/name/{self.name or ''}" + (f"/{self.tree}" if self.tree is not None else "")


def parse_unresolved(path: str) -> UnresolvedPath | None:
    if path.startswith("/tree/"):
        return UnresolvedPath(tree=path.removeprefix("/tree/"))
    if not path.startswith("/name/"):
        return None
    name, _, tree = path.removeprefix("/name/").partition("/")
    return UnresolvedPath(tree or None, name or None)


async def store_upload(skill_name: str, bundle: Files) -> str:
    """Its content hash, unless the blocklist names it. What is put there later, a worker blocks."""
    entry = await find_block(skill_name, UPLOADS, content_hash_of(bundle))
    if entry:
        raise Conflict(
            f"The blocklist names {entry.subject}: {entry.reason.rstrip('.')}. The upload was not accepted or stored."
            " If this is a mistake, ask the operator of this platform to remove that entry, then submit it again.",
            code="blocklisted",
            details={"entry": entry.id},
        )
    return await get_content().put_files(bundle)


async def fetch_upload(submission: Submission) -> Fetched:
    assert submission.content_hash  # an upload is stored before it is recorded
    files = await get_content().get_files(submission.content_hash)
    return Fetched(files, submission.skill_path, submission.skill_name)


async def pin_repo(submission: Submission) -> PinnedRepo:
    # What was pushed before it was submitted must be seen. The request itself may have asked, a moment before.
    since = (submission.run_at or submission.created_at) - API_TIMEOUT
    place = await get_github().pin(*_owner_and_name(submission), tree_of(submission), since)
    if submission.repo_id not in (None, place.repo.id):
        raise NeedsPerson(
            "The repository changed hands: its name now belongs to another one. A person has to look at it.",
            parked_by="hands",
        )
    return place


def source_today(submission: Submission, repo: GitHubRepo) -> str:
    """The source by the repository's current name: the submitted address may be a former one."""
    host = submission.source.rsplit("/", 2)[0]
    return f"{host}/{repo.owner}/{repo.name}".lower()


def tree_of(submission: Submission) -> str | None:
    """The reference to verify, with an optional path after it; None is the head of the default branch."""
    unresolved = parse_unresolved(submission.skill_path)
    return submission.ref or (unresolved.tree if unresolved else None)


async def fetch_skill(submission: Submission, place: PinnedRepo) -> Fetched:
    repo, pinned = place
    path = await _folder(submission, place)
    folder = await get_github().fetch_skill(repo, pinned.commit, path)
    name = github_name(repo, path, pinned.ref)
    return Fetched(folder.files, identity_path(path, pinned.ref), name, folder.anomalies, folder.unscanned, place)


def identity_path(path: str, ref: str | None) -> str:
    """Only the default branch makes versions of the plain identity; any other reference is another one."""
    return f"{path}@{ref}" if ref else path


def github_name(repo: GitHubRepo, path: str, ref: str | None) -> str:
    slug = parse_slug((repo.name if path == "." else path.rpartition("/")[2]).lower())
    return f"{repo.owner}/{repo.name}/{slug}" + (f"@{ref.replace('/', '~')}" if ref else "")


async def find_folder(github: GitHub, place: PinnedRepo, skill_name: str | None) -> str:
    """The folder of the skill of that name; without a name, the one the address names or the only one there is."""
    repo, pinned = place
    if pinned.path and skill_name is None:
        return pinned.path
    found = await github.discover(repo, pinned.commit)
    skills = [skill for skill in found.skills if not pinned.path or f"{skill.path}/".startswith(f"{pinned.path}/")]
    wanted = [skill for skill in skills if skill_name in (None, skill.name, skill.name.lower())]
    if not wanted and skill_name:
        wanted = await _skills_named(github, skill_name, place, skills)
    if len(wanted) == 1:
        return wanted[0].path
    names = [skill.path if skill.path != "." else skill.name for skill in skills]
    if not names:
        raise Refused("There is no SKILL.md in this repository. A skill is a folder with a SKILL.md at the top level.")
    listed = ", ".join(names[:20]) + (" …" if len(names) > 20 else "")
    if skill_name:
        raise Unprocessable(
            f"This repository has no single skill {skill_name!r}. It has: {listed}.",
            code="skill_not_in_repo",
            details={"skills": names},
        )
    raise Unprocessable(
        f"This repository has several skills. Say which one with `skillPath`: {listed}.",
        code="several_skills",
        details={"skills": names, "paths": [skill.path.removeprefix(f"{pinned.path}/") for skill in skills]},
    )


async def _skills_named(github: GitHub, name: str, place: PinnedRepo, skills: Sequence[FoundSkill]) -> list[FoundSkill]:
    """Those with this name in their front matter. Each is parsed for every name, so only the first ones are."""
    first = skills[:MAX_READ]
    texts = await github.read_skill_mds(place.repo, place.pinned.commit, [skill.skill_md for skill in first])
    return [skill for skill in first if _own_name(texts.get(skill.skill_md, b"")) == name.lower()]


def _own_name(skill_md: bytes) -> str:
    from shared.scanner.front_matter import read_front_matter  # here: only this lookup needs YAML in an API

    return read_front_matter(text_of(skill_md)).name.lower()


async def _folder(submission: Submission, place: PinnedRepo) -> str:
    unresolved = parse_unresolved(submission.skill_path)
    if unresolved is None:
        return submission.skill_path.removesuffix(f"@{submission.ref}") if submission.ref else submission.skill_path
    try:
        return await find_folder(get_github(), place, unresolved.name)
    except Unprocessable as several:  # no client waits any more: it is a verdict
        raise Refused(str(several), several.code) from several


def _owner_and_name(submission: Submission) -> tuple[str, str]:
    owner, name = (submission.repo_url or submission.source).split("/")[-2:]
    return owner, name
