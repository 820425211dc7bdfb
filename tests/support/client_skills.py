"""Skills that clients can install, as publishing leaves them: record, version, manifest and artifacts."""

import msgspec

from shared.marketplace.artifacts import store_artifacts
from shared.marketplace.manifest_store import manifest_of, manifest_put
from shared.marketplace.skill_store import skill_put, version_put
from shared.records.skills import Skill, SkillVersion
from shared.storage.content import content_hash_of
from tests.support.memory import within
from tests.support.stored_skills import a_skill, put_skills

NAME = "acme/tools/pdf"


def some_files(name: str = "pdf", text: str = "Sum it up.", more: str = "") -> dict[str, bytes]:
    front_matter = f"---\nname: {name}\ndescription: Helps with {name} files.\n{more}---\n"
    return {"SKILL.md": f"{front_matter}\n{text}\n".encode(), "notes/a b.md": text.encode()}


async def put_installable(env, name: str = NAME, files=None, version: str = "1.0.0", **more) -> Skill:
    folder = name.rpartition("/")[2].partition("@")[0]
    files = some_files(folder) if files is None else files
    skill = a_skill(
        name,
        **{"content_hash": content_hash_of(files), "current_version": version, "description": f"Helps with {folder}."}
        | more,
    )

    async def store() -> None:
        stored = await store_artifacts(name, version, skill.description, files)
        await put_skills(env.kv, skill)
        await env.kv.put(_version_put(skill, version, stored.artifacts, stored.unpackaged))
        await env.kv.put(manifest_put(manifest_of(name, version, files)))

    await within(env, store)
    return skill


def _version_put(skill: Skill, version: str, artifacts, unpackaged: str):
    return version_put(
        SkillVersion(
            name=skill.name,
            version=version,
            content_hash=skill.content_hash,
            submission_id=skill.submission_id,
            created_at=skill.updated_at,
            artifacts=artifacts,
            unpackaged=unpackaged,
        )
    )


async def change(env, skill: Skill, **fields) -> Skill:
    """One write to its record."""
    changed = msgspec.structs.replace(skill, **fields)
    await env.kv.put(skill_put(changed, None))
    return changed
