"""What `make build` packs: each function answers from its own code and the layer alone, and both hold nothing else."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cold_start import EVENTS
from local import bundle
from shared.access.auth import sha256_of
from shared.scanner.pack import rule_set_version
from shared.storage.aws import SERVICES
from tests.support.aws_resources import client, create_resources
from tests.support.gateway_events import an_http_event

ROOT = Path(__file__).parents[2]
REQUIREMENTS = {line.partition("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()}
TOKEN = "a-token"
SKILL = {
    "name": "greeter",
    "files": [{"path": "SKILL.md", "content": "---\nname: greeter\ndescription: Greets.\n---\n"}],
}
SECRETS = {
    "SECRETS_FILE": {
        "signingKey": "k" * 64,
        "adminTokens": [{"name": "anna", "role": "admin", "sha256": sha256_of(TOKEN)}],
    },
    "SESSION_SECRET_FILE": {"sessionKey": "s" * 64},
    "OWNER_SESSION_SECRET_FILE": {"sessionKey": "o" * 64},
    "RECEIPT_SECRET_FILE": {"receiptKey": "r" * 64},
}
ANSWER = """
import json, sys
from {module} import handler

class Context:
    aws_request_id = function_name = invoked_function_arn = "a"
    memory_limit_in_mb = 1024
    def get_remaining_time_in_millis(self):
        return 60000

print(json.dumps(handler(json.load(sys.stdin), Context())))
"""


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """As pip would install it, of the packages that the tests run with."""
    folder = tmp_path_factory.mktemp("layer")
    for package in _installed():
        for file in package.files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.link(file.locate(), folder / file)
    bundle.pack_layer(folder)
    return folder


def _installed():
    return [p for p in importlib.metadata.distributions() if bundle.canonicalize_name(p.name) in REQUIREMENTS]


@pytest.fixture
def answer(layer, tmp_path, moto_url):
    """Runs a function as Lambda would: without anything of ours or of others that is not packed."""
    for name, content in SECRETS.items():
        (tmp_path / name).write_text(json.dumps(content))
    environment = {
        **create_resources(moto_url),
        **{name: str(tmp_path / name) for name in SECRETS},
        "PATH": os.environ["PATH"],
        "EXTERNAL_SCANNERS": "bandit",
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run(function, event):
        code = tmp_path / function
        if not code.exists():
            bundle.copy_function(function, code)
        result = subprocess.run(
            [sys.executable, "-S", "-P", "-c", ANSWER.format(module=bundle.functions()[function])],
            input=json.dumps(event),
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": f"{code}:{layer}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout.splitlines()[-1])

    run.queue_url = environment["QUEUE_URL"]
    return run


@pytest.mark.parametrize(
    "function", sorted(bundle.functions().keys() - {"Consumer"})
)  # which has a test of its own below
def test_a_function_answers_from_its_own_code_and_the_layer_alone(answer, function):
    event = EVENTS[bundle.functions()[function].partition(".")[2]]
    event = {**event, **({"headers": {"authorization": f"Bearer {TOKEN}"}} if function == "AdminApi" else {})}
    answered = answer(function, event)
    assert not answered or answered.get("statusCode", 200) < 500, answered


def test_a_skill_is_submitted_scanned_published_and_shown_by_functions_that_share_nothing_but_the_layer(
    answer, moto_url
):
    accepted = answer("SubmissionsApi", an_http_event("POST /api/v1/submissions", body={"bundle": SKILL}))
    assert accepted["statusCode"] == 201, accepted
    [message] = client("sqs", moto_url).receive_message(QueueUrl=answer.queue_url)["Messages"]
    record = {"messageId": "m", "receiptHandle": "r", "body": message["Body"], "eventSource": "aws:sqs"}
    consumed = answer("Consumer", {"Records": [{**record, "attributes": {"ApproximateReceiveCount": "1"}}]})
    assert consumed == {"batchItemFailures": []}
    name = json.loads(accepted["body"])["skillName"]
    shown = answer("Pages", an_http_event("GET /skills/{proxy+}", path={"proxy": name}))
    assert (shown["statusCode"], "greeter" in shown["body"]) == (200, True)
    assert json.loads(answer("Registry", an_http_event("GET /api/search", query="q=greeter"))["body"])["skills"]


def test_code_that_lacks_a_module_of_its_function_does_not_answer(answer, tmp_path):
    bundle.copy_function("Registry", tmp_path / "Registry")
    (tmp_path / "Registry/shared/marketplace/skill_search.py").unlink()
    with pytest.raises(AssertionError, match="skill_search"):
        answer("Registry", EVENTS["registry"])


@pytest.mark.parametrize("function", bundle.functions())
def test_a_function_has_no_code_of_another_trigger(function):
    files = {path.as_posix() for path in bundle.files_of(function)}
    handler = bundle.functions()[function].partition(".")[2]
    assert {f for f in files if re.fullmatch(r"functions/\w+\.py", f)} == {
        "functions/__init__.py",
        f"functions/{handler}.py",
    }
    assert any("/templates/" in f for f in files) is (handler in ("pages", "admin_pages", "owner_pages"))
    assert "shared/scanner/__main__.py" not in files


def unneeded_modules():
    """What neither a function imports nor the scanner's command."""
    needed = bundle.modules_of(*bundle.functions().values(), "shared.scanner.__main__").values()
    return {path for folder in bundle.OURS for path in (bundle.ROOT / folder).rglob("*.py")} - set(needed)


def test_every_module_is_needed_by_a_function_or_the_scanners_command():
    assert unneeded_modules() == set()


SMALL_PROJECT = {
    "template.yaml": "Resources: {A: {Type: X, Properties: {Handler: functions.a.handler}}}",
    "functions/__init__.py": "",
    "functions/a.py": "from shared import now\nfrom shared.now import later\n",
    "functions/b.py": "import shared.unused",
    "shared/__init__.py": "",
    "shared/now.py": "def f():\n    from shared.later import thing\nPROGRAM = 'shared.program'\n",
    "shared/later.py": "if TYPE_CHECKING:\n    import shared.unused\nimport orjson.x\n",
    "shared/program.py": "from importlib import import_module\nimport_module(f'nh3.{1}')",
    "shared/unused.py": "",
}


@pytest.fixture
def small_project(tmp_path, monkeypatch):
    for name, text in SMALL_PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    bundle.functions.cache_clear()
    yield tmp_path
    bundle.functions.cache_clear()


def test_what_is_imported_later_and_programs_are_packed_and_what_is_imported_for_types_is_not(small_project):
    packed = [
        "functions/__init__.py",
        "functions/a.py",
        *(f"shared/{n}.py" for n in ("__init__", "later", "now", "program")),
    ]
    assert [path.as_posix() for path in bundle.files_of("A")] == packed
    assert bundle.packages_used() == {"orjson", "nh3"}


def test_a_planted_module_that_no_function_imports_is_found(small_project):
    (small_project / "shared/scanner").mkdir()
    (small_project / "shared/scanner/__main__.py").write_text("")
    (small_project / "shared/scanner/__init__.py").write_text("")
    assert {path.stem for path in unneeded_modules()} == {"b", "unused"}


def test_a_module_that_is_imported_by_a_name_nobody_can_tell_is_refused(small_project):
    (small_project / "shared/program.py").write_text("import importlib\nimportlib.import_module(name)")
    with pytest.raises(bundle.BundleError, match=r"shared/program\.py"):
        bundle.files_of("A")


def test_the_files_that_code_reads_beside_itself_are_packed_with_it():
    readers = {name for name, path in _modules() if re.search(r"Path\(\w*(?:\.)?__file__\)", path.read_text())}
    assert readers - {"shared.scanner.build", "functions.html.web_files"} == bundle.READS.keys()
    assert "shared.web.assets" in bundle.imports_of(ROOT / "functions/html/web_files.py")


def _modules():
    return bundle.modules_of(*bundle.functions().values()).items()


def test_the_rules_in_a_function_are_those_of_the_repository_and_need_no_compiling(layer, tmp_path):
    bundle.copy_function("Consumer", tmp_path)
    program = "from shared.scanner import pack; print(pack.rule_set_version(), bool(pack.find_compiled_pack()))"
    environment = {"PYTHONPATH": f"{tmp_path}:{layer}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-S", "-P", "-c", program]
    printed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [rule_set_version(), "True"]


def test_a_package_that_no_function_needs_is_refused():
    assert bundle.unused_packages(_installed()) == set()
    assert bundle.unused_packages([*_installed(), importlib.metadata.distribution("pytest")]) == {"pytest"}


def test_a_package_that_is_imported_and_not_installed_is_refused():
    with pytest.raises(bundle.BundleError, match="nh3"):
        bundle.unused_packages([package for package in _installed() if package.name != "nh3"])


def test_the_layer_knows_the_services_that_we_call_and_no_other(layer):
    known = {path.name for path in (layer / "botocore/data").iterdir() if path.is_dir()}
    assert known == bundle.SERVICES
    assert SERVICES.keys() | {"bedrock-runtime"} <= known
    program = "import sys, botocore.session as s; [s.Session().create_client(n, 'us-east-1') for n in sys.argv[1:]]"
    command = [sys.executable, "-S", "-P", "-c", program, *sorted(known)]
    subprocess.run(command, env={"PYTHONPATH": str(layer)}, check=True)


def test_what_nothing_runs_is_not_in_the_layer(layer):
    left = [path for pattern in bundle.NOT_RUN for path in layer.glob(pattern)]
    assert left == []
    assert shutil.which("pip", path=str(layer / "bin")) is None
