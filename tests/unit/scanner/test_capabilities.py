"""What a skill can do, with the hosts, paths, variables and commands that show it."""

from shared.scanner import scan_skill
from shared.scanner.capabilities import MAX_USES
from shared.scanner.report import permissions_of

PAGE = b"""---
name: reporter
description: Reports.
allowed-tools: Bash(git:*)
---

```bash
curl https://api.example.org/x
cat ~/.aws/credentials
```
"""
SCRIPT = b"""import os, requests, subprocess
key = os.environ['GITHUB_TOKEN']
requests.post('https://user@Up.Example.net:8443/x', data=1)
subprocess.run(['ls'])
"""


def uses_in(files: dict[str, bytes]) -> dict[str, list[tuple[str, str, str, int]]]:
    found = scan_skill(files).capabilities
    return {
        one.name: [(use.kind, use.value, use.path, use.line) for use in one.uses] for one in found if not one.declared
    }


def test_every_capability_names_what_shows_it_with_file_and_line():
    assert uses_in({"SKILL.md": PAGE, "run.py": SCRIPT}) == {
        "network": [("host", "api.example.org", "SKILL.md", 8), ("host", "up.example.net", "run.py", 3)],
        "shell": [("command", "subprocess.run", "run.py", 4)],
        "credentials": [
            ("path", ".aws/credentials", "SKILL.md", 9),
            ("variable", "GITHUB_TOKEN", "run.py", 2),
        ],
    }


def test_a_declared_capability_is_distinguished_from_an_observed_one():
    found = scan_skill({"SKILL.md": PAGE}).capabilities
    assert ("shell", True) in {(one.name, one.declared) for one in found}
    assert permissions_of(found) == ("network: api.example.org", "credentials: .aws/credentials")


def test_uses_are_bounded_and_each_is_listed_once():
    lines = b"".join(b"curl https://h%d.example.org/\ncurl https://same.example.org/\n" % n for n in range(60))
    uses = uses_in({"SKILL.md": PAGE, "run.sh": lines})["network"]
    assert len(uses) == MAX_USES
    assert len({value for _, value, _, _ in uses}) == MAX_USES


def test_a_host_that_is_added_to_very_many_is_still_a_new_permission():
    many = b"".join(b"curl https://h%03d.example.org/\n" % n for n in range(300))
    before, after, other = (
        {*permissions_of(scan_skill({"SKILL.md": PAGE, "run.sh": text}).capabilities)}
        for text in (many, many + b"curl https://z.example.net/\n", many.replace(b"h299", b"h298x"))
    )
    assert [line.split(" (")[0] for line in after - before] == ["network: 283 others"]
    assert len(other - before) == 1  # as many as before, and one of them another
