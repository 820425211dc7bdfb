"""How a skill is installed with each client: commands that name the version, and the digest of what they bring."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shared.marketplace.client_listing import CLAUDE_CODE, CLAWHUB, MCP, NPM, SKILLS_CLI, find_obstacles
from shared.marketplace.client_names import NameRival, clawhub_slug_of, version_marketplace
from shared.records.manifests import Manifest
from shared.records.skills import Skill, SkillVersion, full_name, npm_name_of, split_name

VSKILL, DOWNLOAD = "vskill", "download"
LABELS = {
    SKILLS_CLI: "skills",
    CLAUDE_CODE: "Claude Code",
    NPM: "npm",
    CLAWHUB: "clawhub",
    MCP: "MCP",
    DOWNLOAD: "Download",
    VSKILL: "vskill",
}
NOTES = {
    SKILLS_CLI: "Stays at this version. Leave out the version at the end to follow new ones with `skills update`.",
    CLAUDE_CODE: "Stays at this version. Add `{repository}` instead to follow new ones.",
    MCP: "Always serves the current version, with a digest for every file.",
}
_PACKAGING = {SKILLS_CLI: "tgz", CLAUDE_CODE: "npm", NPM: "npm", CLAWHUB: "zip", DOWNLOAD: "zip"}


class InstallTab(NamedTuple):
    id: str
    label: str
    commands: Sequence[str]
    digest: str | None  # of the bytes that these commands bring
    obstacles: Sequence[str]  # why this client cannot list the skill, and what its author would change
    note: str = ""


def install_tabs(
    skill: Skill, version: SkillVersion, manifest: Manifest | None, site: str, rival: NameRival | None = None
) -> list[InstallTab]:
    """The clients that get the scanned bytes first; the one that installs from the repository's head last."""
    found = find_obstacles(skill, version, manifest)
    obstacles = {client: [*found[client], *_of_name(client, rival)] for client in found}
    commands = _commands(skill, version, site)
    tabs = [_tab(client, commands, version, obstacles[client]) for client in (SKILLS_CLI, CLAUDE_CODE, NPM, CLAWHUB)]
    tabs[1] = tabs[1]._replace(note=tabs[1].note.format(repository=_repository_market(skill, site)))
    tabs.append(_tab(MCP, commands, version, obstacles[MCP])._replace(digest=_page_digest(manifest)))
    missing = [] if "zip" in version.artifacts else [version.why_not_packaged]
    tabs.append(_tab(DOWNLOAD, commands, version, missing))
    return [*tabs, *_vskill(skill)]


def _page_digest(manifest: Manifest | None) -> str | None:
    """What MCP says of the skill's SKILL.md."""
    files = manifest.files if manifest else ()
    return next((f"sha256:{each.sha256}" for each in files if each.path == "SKILL.md"), None)


def _of_name(client: str, rival: NameRival | None) -> list[str]:
    """On npm, where Claude Code gets its plugins too, the first keeps the name; clawhub refuses both."""
    in_the_way = {CLAUDE_CODE: rival.was_first, NPM: rival.was_first, CLAWHUB: not rival.is_deleted} if rival else {}
    if rival is None or not in_the_way.get(client):
        return []
    return [f"Rename the folder or the repository: {rival.name} has the same name there."]


def _tab(client: str, commands: Mapping[str, Sequence[str]], version: SkillVersion, obstacles: list[str]) -> InstallTab:
    artifact = version.artifacts.get(_PACKAGING.get(client, ""))
    shown, note = ((), "") if obstacles else (commands[client], NOTES.get(client, ""))
    return InstallTab(client, LABELS[client], shown, f"sha256:{artifact.sha256}" if artifact else None, obstacles, note)


def _commands(skill: Skill, version: SkillVersion, site: str) -> dict[str, Sequence[str]]:
    name = full_name(skill).lower()
    owner, _, slug = split_name(name)
    return {
        SKILLS_CLI: (f"npx skills add {site}/{name}/{version.version}",),
        CLAUDE_CODE: (
            f"claude plugin marketplace add {site}/marketplace/version/{name}/{version.version}.json",
            f"{_npm_setting(site)}claude plugin install {slug}@{version_marketplace(skill, version.version)}",
        ),
        NPM: (f"npm install {npm_name_of(name)}@{version.version} --registry {site}/npm",),
        CLAWHUB: (
            f"CLAWHUB_SITE={site} clawhub install @{owner}/{clawhub_slug_of(skill)} --version {version.version}",
        ),
        MCP: (f"{site}/mcp", f"skill://{name}/SKILL.md"),
        DOWNLOAD: (
            f"curl -fLo {slug}.zip '{site}/api/v1/skills/{name}/versions/{version.version}/download?format=zip'",
        ),
    }


def _repository_market(skill: Skill, site: str) -> str:
    owner, repo, _ = split_name(full_name(skill).lower())
    return f"{site}/marketplace/repository/{owner}/{repo}.json"


def _npm_setting(site: str) -> str:
    """Without https Claude Code takes packages from npm's default registry only."""
    return "" if site.startswith("https://") else f"npm_config_registry={site}/npm "


def _vskill(skill: Skill) -> list[InstallTab]:
    """It installs from GitHub, whatever is at the head of the repository by then."""
    if skill.repo_url is None:
        return []
    owner, repo, slug = split_name(full_name(skill))
    command = f"npx vskill@latest install {owner}/{repo}/{skill.folder or slug}"
    note = "Installs the newest commit of the repository, which may not be the one that was scanned."
    return [InstallTab(VSKILL, LABELS[VSKILL], (command,), None, (), note)]
