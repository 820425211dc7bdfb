"""The three packagings of a version's files, as bytes. Pure.

`tgz` and `zip` have the files at their root; `npm` is a package that is also a Claude Code plugin. Sorted, with fixed
times and modes: the same files give the same bytes, for one version of zlib. So they are built once and stored.
"""

import gzip
import io
import tarfile
import zipfile
from typing import NamedTuple

import msgspec

from shared.records.skills import npm_name_of, split_name
from shared.scanner.file_names import clashes, leaves_its_folder
from shared.storage.content import Files

TGZ, ZIP, NPM = "tgz", "zip", "npm"
PACKAGINGS = (TGZ, ZIP, NPM)
LEVEL = 6
MODE = 0o644
OLDEST = (1980, 1, 1, 0, 0, 0)  # the first moment that a zip can name


class Packaged(NamedTuple):
    bodies: dict[str, bytes]  # by packaging
    missing: str = ""  # why a packaging is not there


def package(name: str, version: str, description: str, files: Files) -> Packaged:
    """`name` is the full name of the skill. What some client would write to another place gets no packaging at all."""
    if unsafe := why_unsafe(files):
        return Packaged({}, unsafe)
    bodies, problems = {ZIP: zip_of(files)}, []
    try:
        bodies[TGZ] = _tgz(files)
    except ValueError:
        problems.append("The name of a file is too long for a .tar.gz.")
    npm_name = npm_name_of(name)
    if npm_name is None:
        problems.append("Its name cannot be a package of npm.")
    elif any(path.rpartition("/")[2] == ".gitignore" for path in files):
        # As .npmignore, or not at all where there is one: other files than those that were scanned.
        problems.append("npm would install its .gitignore under another name.")
    else:
        try:
            bodies[NPM] = _tgz(_npm_files(name, npm_name, version, description, files))
        except ValueError:
            problems.append("The name of a file is too long for a package of npm.")
    return Packaged(bodies, " ".join(problems))


def why_unsafe(files: Files) -> str:
    unsafe = [*filter(leaves_its_folder, files), *clashes(files)]
    return f"The name of the file {unsafe[0][:80]!r} means another place on some systems." if unsafe else ""


def npm_folder(name: str) -> str:
    """Where the files of a skill are in its package of npm."""
    return f"package/skills/{_slug(name)}/"


def _npm_files(name: str, npm_name: str, version: str, description: str, files: Files) -> dict[str, bytes]:
    """Without scripts, whatever the skill has: what it brings is below its own folder, where npm runs nothing."""
    plugin = {"name": _slug(name), "version": version, "description": description}
    return {
        "package/package.json": _json({**plugin, "name": npm_name}),
        "package/.claude-plugin/plugin.json": _json(plugin),
        **{f"{npm_folder(name)}{path}": content for path, content in files.items()},
    }


def _slug(name: str) -> str:
    return split_name(name).slug if "/" in name else name


def _tgz(files: Files) -> bytes:
    """Raises ValueError for a path that USTAR cannot hold; clients refuse the extensions that could."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8") as archive:
        for path in sorted(files):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(files[path]), MODE
            archive.addfile(member, io.BytesIO(files[path]))
    return gzip.compress(raw.getvalue(), LEVEL, mtime=0)


def zip_of(files: Files) -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path in sorted(files):
            member = zipfile.ZipInfo(path, OLDEST)
            member.create_system, member.external_attr = 3, (0o100000 | MODE) << 16  # as on Unix: a regular file
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, files[path], compresslevel=LEVEL)
    return raw.getvalue()


def _json(value: dict[str, str]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
