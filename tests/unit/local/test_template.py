"""The runner reads template.yaml as CloudFormation and SAM do, and reports in one sentence what it cannot run."""

from datetime import timedelta
from pathlib import Path

import pytest

from local.cloudformation import TemplateError
from local.template import QueueMapping, Route, Template, read_template

REPOSITORY = Path(__file__).resolve().parents[3]
RUNNER_APP = REPOSITORY / "tests" / "support" / "runner_app" / "template.yaml"
ENDPOINT = "http://127.0.0.1:9999"

SMALL = """
Parameters:
  Stage: {Type: String, Default: dev}
Conditions:
  IsLocal: !Equals [!Ref Stage, local]
Globals:
  Function:
    Timeout: 9
    Environment: {Variables: {LEVEL: low, STAGE: !Ref Stage}}
Resources:
  Work:
    Type: AWS::Serverless::Function
    Properties:
      Handler: code.handler
      Environment:
        Variables:
          SIZE: 3
          ENABLED: true
          QUEUE_URL: !Ref Jobs
          WHERE: !Sub "${AWS::Region}/${Jobs.Arn}/${!Literal}/${Stage}"
          JOINED: !Join ["-", [a, !Ref Stage]]
          CHOSEN: !If [IsLocal, here, there]
      Events:
        Jobs: {Type: SQS, Properties: {Queue: !GetAtt Jobs.Arn, BatchSize: 2}}
        Often: {Type: Schedule, Properties: {Schedule: rate(2 hours)}}
        Never: {Type: Schedule, Properties: {Schedule: rate(1 minute), Enabled: false}}
  Jobs: {Type: AWS::SQS::Queue, Properties: {VisibilityTimeout: 54}}
  Elsewhere: {Type: AWS::SQS::Queue, Condition: IsRemote}
"""


@pytest.fixture
def template_file(tmp_path: Path) -> Path:
    (tmp_path / "code.py").write_text("def handler(event, context): ...\n")
    return tmp_path / "template.yaml"


def read(file: Path, text: str, **options: object) -> Template:
    file.write_text(text)
    return read_template(file, ENDPOINT, "us-east-1", **options)  # type: ignore[arg-type]


def test_objects_expire_as_the_platforms_template_says():
    template = read_template(REPOSITORY / "template.yaml", ENDPOINT, "us-east-1")
    assert template.expiry == {"github/": 1, "received/": 180}


def small(file: Path, **options: object) -> Template:
    return read(file, SMALL.replace("  Elsewhere", "  # Elsewhere"), **options)


def test_references_parameters_and_conditions_become_values(template_file: Path) -> None:
    variables = small(template_file).functions["Work"].environment
    assert variables["STAGE"] == "local"
    assert variables["LEVEL"] == "low"
    assert variables["SIZE"] == "3"
    assert variables["ENABLED"] == "true"
    assert variables["QUEUE_URL"] == f"{ENDPOINT}/000000000000/vskill-platform-Jobs"
    assert variables["WHERE"] == "us-east-1/arn:aws:sqs:us-east-1:000000000000:vskill-platform-Jobs/${Literal}/local"
    assert variables["JOINED"] == "a-local"
    assert variables["CHOSEN"] == "here"


def test_the_environment_of_make_run_wins_except_over_the_stage_and_resources(template_file: Path) -> None:
    given = {"SIZE": "5", "LEVEL": "", "STAGE": "prod", "QUEUE_URL": "http://elsewhere", "OTHER": "x"}
    variables = small(template_file, environment=given).functions["Work"].environment
    assert variables["SIZE"] == "5"
    assert variables["LEVEL"] == "low"
    assert variables["STAGE"] == "local"
    assert variables["QUEUE_URL"].startswith(ENDPOINT)
    assert "OTHER" not in variables


def test_a_function_has_its_triggers_and_globals(template_file: Path) -> None:
    function = small(template_file).functions["Work"]
    assert function.timeout == timedelta(seconds=9)
    assert function.reserved is None
    assert function.mappings == (QueueMapping("Jobs", 2, reports_failures=False, concurrency=None),)
    assert [(schedule.name, schedule.period) for schedule in function.schedules] == [("Often", timedelta(hours=2))]


def test_time_scale_multiplies_timeouts_visibility_and_schedules(template_file: Path) -> None:
    template = small(template_file, time_scale=0.5)
    function = template.functions["Work"]
    assert function.timeout == timedelta(seconds=4.5)
    assert function.schedules[0].period == timedelta(hours=1)
    assert template.queues["Jobs"].attributes["VisibilityTimeout"] == "27"


def test_scaled_seconds_are_whole_and_never_zero(template_file: Path) -> None:
    assert small(template_file, time_scale=0.021).queues["Jobs"].attributes["VisibilityTimeout"] == "2"
    tiny = small(template_file, time_scale=0.0001)
    assert tiny.queues["Jobs"].attributes["VisibilityTimeout"] == "1"
    assert tiny.functions["Work"].timeout == timedelta(seconds=1)


def test_a_function_with_routes_has_time_to_respond_at_any_time_scale() -> None:
    """On a busy machine a first request took longer than a second and was ended; the next was a first one again."""
    functions = read_template(RUNNER_APP, ENDPOINT, "us-east-1", time_scale=0.0001).functions
    assert functions["Echo"].timeout == timedelta(seconds=5)
    assert functions["Worker"].timeout == timedelta(seconds=1)


def test_routes_are_read_with_default_and_greedy_ones() -> None:
    routes = read_template(RUNNER_APP, ENDPOINT, "us-east-1").functions["Echo"].routes
    assert Route("ANY", "$default") in routes
    assert Route("ANY", "/things/{proxy+}") in routes
    assert Route("GET", "/things/{id}") in routes


def test_a_queue_knows_its_dead_letters() -> None:
    queues = read_template(RUNNER_APP, ENDPOINT, "us-east-1").queues
    assert queues["Jobs"].dead_letters_to == queues["DeadJobs"].arn
    assert '"maxReceiveCount": 2' in queues["Jobs"].attributes["RedrivePolicy"]
    assert queues["DeadJobs"].dead_letters_to is None


def test_a_false_condition_leaves_a_resource_out(template_file: Path) -> None:
    conditional = SMALL.replace("Conditions:", "Conditions:\n  IsRemote: !Not [!Condition IsLocal]")
    assert set(read(template_file, conditional).queues) == {"Jobs"}


BROKEN = {
    "not YAML": ("Resources:\n  - a\n  b: }", "template.yaml: not valid YAML (line 3"),
    "no resources": ("Parameters: {}", "template.yaml: has no Resources."),
    "unknown reference": (SMALL.replace("!Ref Jobs", "!Ref Nobody"), "template.yaml: Work: refers to Nobody,"),
    "unknown attribute": (SMALL.replace("${Jobs.Arn}", "${Jobs.Size}"), "Work: refers to Jobs.Size,"),
    "unknown condition": (SMALL, "Elsewhere: uses the condition IsRemote,"),
    "unknown function": (SMALL.replace("!Join", "!Cidr"), "Work: the local runner does not support Fn::Cidr"),
    "no handler": (SMALL.replace("Handler: code.handler", "Timeout: 1"), "Work: has no Handler"),
    "no such file": (SMALL.replace("code.handler", "gone.handler"), "needs the file gone.py, which does not exist"),
    "unknown resource": (SMALL.replace("AWS::SQS::Queue, P", "AWS::X::Y, P"), "Jobs: the local runner does not"),
    "unknown event": (SMALL.replace("Type: SQS", "Type: Kafka"), "its event Jobs has the type Kafka"),
    "cron": (SMALL.replace("rate(2 hours)", "cron(0 12)"), "its event Often has the schedule cron("),
    "large batch": (SMALL.replace("BatchSize: 2", "BatchSize: 50"), "its event Jobs has BatchSize 50"),
    "foreign queue": (SMALL.replace("Queue: !GetAtt Jobs.Arn", "Queue: arn:x"), "reads arn:x, which is not a queue"),
    "a list for a map": (
        SMALL.replace("Properties: {VisibilityTimeout: 54}", "Properties: [1]"),
        "Jobs: Properties is not a map.",
    ),
    "globals": (
        SMALL.replace("Globals:\n  Function:", "Globals:\n  - Function:"),
        "template.yaml: has an unexpected structure",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_template_gets_one_sentence_that_names_the_place(template_file: Path, case: str) -> None:
    text, expected = BROKEN[case]
    with pytest.raises(TemplateError) as error:
        read(template_file, text)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_template_is_reported(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"none\.yaml: cannot be read \(No such file"):
        read_template(tmp_path / "none.yaml", ENDPOINT, "us-east-1")


def test_limits_per_address_are_off_on_this_machine_and_on_where_others_reach_it() -> None:
    def limits(**options: bool) -> set[str]:
        template = read_template(REPOSITORY / "template.yaml", ENDPOINT, "us-east-1", **options)
        return {function.environment["RATE_LIMITS"] for function in template.functions.values()}

    assert limits() == {"off"}
    [text] = limits(limits=True)
    assert "submit=10/3600" in text
