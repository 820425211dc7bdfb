"""The resources of template.yaml that the runner starts: functions with their triggers, tables, queues, buckets."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from local.cloudformation import ACCOUNT, STACK, Resolver, TemplateError, load

RATE = re.compile(r"rate\(([1-9]\d*) (minute|hour|day)s?\)")
# A scaled-down timeout must still leave a busy machine enough time.
MIN_TIMEOUT = timedelta(seconds=1)
# The first request also creates the clients. If it timed out before that, so would every later one.
MIN_HTTP_TIMEOUT = timedelta(seconds=5)
# Never overridden: the code must know that it runs locally.
FIXED_VARIABLES = {"STAGE"}
PARAMETERS = {"Stage": "local", "AllowUploads": "true"}
NO_LIMITS = {"RateLimits": "off"}

FUNCTION = "AWS::Serverless::Function"
TABLE = "AWS::DynamoDB::Table"
QUEUE = "AWS::SQS::Queue"
BUCKET = "AWS::S3::Bucket"
# Needed on AWS only. Any other type is refused: a resource that silently does not run is worse than an error.
AWS_ONLY = {
    "AWS::Serverless::HttpApi",
    "AWS::Serverless::LayerVersion",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::SecretsManager::Secret",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::SNS::Topic",
    "AWS::SNS::Subscription",
    "AWS::IAM::Role",
    "AWS::S3::BucketPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::CloudFront::CachePolicy",
    "AWS::CloudFront::Distribution",
    "AWS::CloudFront::Function",
    "AWS::CloudFront::OriginRequestPolicy",
}


@dataclass(frozen=True)
class Route:
    """The path `$default`, with any method, matches requests that match no other route."""

    method: str
    path: str

    @property
    def key(self) -> str:
        return self.path if self.path == "$default" else f"{self.method} {self.path}"


@dataclass(frozen=True)
class QueueMapping:
    queue: str
    batch_size: int
    reports_failures: bool
    concurrency: int | None


@dataclass(frozen=True)
class Schedule:
    name: str
    period: timedelta
    input: str | None


@dataclass(frozen=True)
class Function:
    name: str
    handler: str
    timeout: timedelta
    memory: int
    reserved: int | None
    log_format: str
    environment: dict[str, str]
    routes: tuple[Route, ...] = ()
    mappings: tuple[QueueMapping, ...] = ()
    schedules: tuple[Schedule, ...] = ()


@dataclass(frozen=True)
class Queue:
    name: str
    url: str
    arn: str
    attributes: dict[str, str]
    dead_letters_to: str | None


@dataclass(frozen=True)
class Template:
    functions: dict[str, Function]
    queues: dict[str, Queue]
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    buckets: dict[str, str] = field(default_factory=dict)
    expiry: dict[str, int] = field(default_factory=dict)  # of objects, in days, by the beginning of their key


def read_template(
    path: Path,
    endpoint: str,
    region: str,
    time_scale: float = 1,
    environment: Mapping[str, str] | None = None,
    *,
    limits: bool = False,
) -> Template:
    """With `limits`, those of the template are on: per address, how many requests of a kind."""
    try:
        return _Reader(path, endpoint, region, time_scale, environment or {}, limits).read()
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TemplateError(f"{path.name}: has an unexpected structure ({error!r}).") from error


class _Reader:
    def __init__(
        self,
        path: Path,
        endpoint: str,
        region: str,
        time_scale: float,
        environment: Mapping[str, str],
        limits: bool,
    ) -> None:
        self._path, self._endpoint, self._region = path, endpoint, region
        self._time_scale, self._environment = time_scale, environment
        self._document = load(path)
        self._resources: dict[str, Any] = self._document["Resources"]
        parameters = PARAMETERS if limits else PARAMETERS | NO_LIMITS
        self._globals = (self._document.get("Globals") or {}).get("Function") or {}
        self._resolver = Resolver(self._document, parameters, region, self._physical_id, self._attribute)
        self._types = {TABLE: self._table, QUEUE: self._queue, BUCKET: self._physical_id, FUNCTION: self._function}

    def read(self) -> Template:
        for name in self._resources:
            with self._naming(name):
                self._check(self._resources[name])
        made: dict[str, dict[str, Any]] = {kind: {} for kind in self._types}
        for name in self._resources:
            with self._naming(name):
                self._read_resource(name, made)
        return Template(made[FUNCTION], made[QUEUE], made[TABLE], made[BUCKET], self._expiry(made[BUCKET]))

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        try:
            yield
        except TemplateError as error:
            raise TemplateError(f"{self._path.name}: {name}: {error}") from error
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise TemplateError(f"{self._path.name}: {name}: has an unexpected structure ({error!r}).") from error

    def _check(self, resource: Any) -> None:
        kind = resource.get("Type")
        if kind not in self._types and kind not in AWS_ONLY:
            raise TemplateError(f"the local runner does not support the type {kind}.")
        if not isinstance(resource.get("Properties") or {}, dict):
            raise TemplateError("Properties is not a map.")

    def _read_resource(self, name: str, made: dict[str, dict[str, Any]]) -> None:
        resource = self._resources[name]
        kind = resource["Type"]
        if not self._resolver.is_wanted(resource.get("Condition")):
            return
        self._properties(name)  # a wrong reference anywhere is an error
        if kind in self._types:
            made[kind][name] = self._types[kind](name)

    def _expiry(self, buckets: Iterable[str]) -> dict[str, int]:
        rules = [
            rule
            for name in buckets
            for rule in self._properties(name).get("LifecycleConfiguration", {}).get("Rules", [])
            if "ExpirationInDays" in rule and rule["Status"] == "Enabled"
        ]
        return {rule["Prefix"]: int(rule["ExpirationInDays"]) for rule in rules}

    def _properties(self, name: str) -> dict[str, Any]:
        resolved: dict[str, Any] = self._resolver.resolve(self._resources[name].get("Properties") or {})
        return resolved

    # --- names of things ---

    def _physical_id(self, name: str) -> str | None:
        """The value of !Ref: a name, or the URL of a queue."""
        if name not in self._resources:
            return None
        kind = self._resources[name].get("Type")
        if kind == QUEUE:
            return f"{self._endpoint}/{ACCOUNT}/{self._name(name)}"
        if kind == "AWS::SecretsManager::Secret":
            return self._arn(name)
        return self._name(name)

    def _name(self, name: str) -> str:
        properties = self._resources[name].get("Properties") or {}
        kind = str(self._resources[name].get("Type")).rpartition("::")[2]
        given = properties.get(f"{kind}Name")
        if given is not None:
            return str(self._resolver.resolve(given))
        made = f"{STACK}-{name}"
        return made.lower() if kind == "Bucket" else made

    def _arn(self, name: str) -> str:
        service, resource = {
            TABLE: ("dynamodb", f"table/{self._name(name)}"),
            QUEUE: ("sqs", self._name(name)),
            FUNCTION: ("lambda", f"function:{self._name(name)}"),
            "AWS::SecretsManager::Secret": ("secretsmanager", f"secret:{self._name(name)}"),
            "AWS::SNS::Topic": ("sns", self._name(name)),
            "AWS::Logs::LogGroup": ("logs", f"log-group:{self._name(name)}:*"),
        }.get(self._resources[name].get("Type"), ("iam", self._name(name)))
        return f"arn:aws:{service}:{self._region}:{ACCOUNT}:{resource}"

    def _attribute(self, name: str, attribute: str) -> str | None:
        if name not in self._resources:
            return None
        kind = self._resources[name].get("Type")
        if attribute == "Arn":
            return f"arn:aws:s3:::{self._name(name)}" if kind == BUCKET else self._arn(name)
        if attribute in ("QueueName", "TopicName", "RoleName"):
            return self._name(name)
        if attribute in ("QueueUrl", "ApiEndpoint"):
            return self._physical_id(name)
        return None

    # --- storage and queues ---

    def _table(self, name: str) -> dict[str, Any]:
        return {"TableName": self._name(name), **self._properties(name)}

    def _queue(self, name: str) -> Queue:
        properties = self._properties(name)
        redrive = properties.get("RedrivePolicy")
        attributes: dict[str, str] = {
            key: str(properties[key])
            for key in ("MessageRetentionPeriod", "DelaySeconds", "MaximumMessageSize", "ReceiveMessageWaitTimeSeconds")
            if key in properties
        }
        attributes["VisibilityTimeout"] = str(self._whole_seconds(properties.get("VisibilityTimeout", 30)))
        url, arn = str(self._physical_id(name)), self._arn(name)
        if redrive is None:
            return Queue(self._name(name), url, arn, attributes, None)
        receives = redrive["maxReceiveCount"]
        target = redrive["deadLetterTargetArn"]
        attributes["RedrivePolicy"] = f'{{"deadLetterTargetArn": "{target}", "maxReceiveCount": {int(receives)}}}'
        return Queue(self._name(name), url, arn, attributes, target)

    def _whole_seconds(self, seconds: Any) -> int:
        return max(1, math.ceil(float(seconds) * self._time_scale))

    # --- functions ---

    def _function(self, name: str) -> Function:
        settings = self._resolver.resolve(_merged(self._globals, self._resources[name].get("Properties") or {}))
        handler = self._handler(settings.get("Handler"))
        routes, mappings, schedules = self._events(settings.get("Events") or {})
        reserved = settings.get("ReservedConcurrentExecutions")
        return Function(
            name=name,
            handler=handler,
            timeout=self._timeout(settings, MIN_HTTP_TIMEOUT if routes else MIN_TIMEOUT),
            memory=int(settings.get("MemorySize", 128)),
            reserved=None if reserved is None else int(reserved),
            log_format=(settings.get("LoggingConfig") or {}).get("LogFormat", "Text"),
            environment=self._variables(name),
            routes=tuple(routes),
            mappings=tuple(mappings),
            schedules=tuple(schedules),
        )

    def _timeout(self, settings: Mapping[str, Any], shortest: timedelta) -> timedelta:
        timeout = timedelta(seconds=float(settings.get("Timeout", 3)))
        return max(timeout * self._time_scale, min(timeout, shortest))

    def _handler(self, handler: Any) -> str:
        module, _, function = str(handler or "").rpartition(".")
        if not module or not function:
            raise TemplateError("has no Handler of the form module.function.")
        file = Path(*module.replace("/", ".").split(".")).with_suffix(".py")
        if not (self._path.parent / file).is_file():
            raise TemplateError(f"its handler {handler} needs the file {file}, which does not exist.")
        return str(handler)

    def _variables(self, name: str) -> dict[str, str]:
        """The values of the template, overridden by the environment of `make run` unless they refer to a resource."""
        own = (self._resources[name].get("Properties") or {}).get("Environment") or {}
        raw = _merged(self._globals.get("Environment") or {}, own).get("Variables") or {}
        values = {key: _text(self._resolver.resolve(value)) for key, value in raw.items()}
        given = {key: self._environment[key] for key in raw if self._environment.get(key)}
        free = {key: value for key, value in given.items() if key not in FIXED_VARIABLES and self._is_free(raw[key])}
        return {**values, **free}

    def _is_free(self, raw: Any) -> bool:
        return not (isinstance(raw, dict) and raw.get("Ref") in self._resources)

    def _events(self, events: dict[str, Any]) -> tuple[list[Route], list[QueueMapping], list[Schedule]]:
        routes: list[Route] = []
        mappings: list[QueueMapping] = []
        schedules: list[Schedule] = []
        for name, event in events.items():
            properties = event.get("Properties") or {}
            match event.get("Type"):
                case "HttpApi":
                    routes.append(_route(name, properties))
                case "SQS":
                    mappings.append(self._mapping(name, properties))
                case "Schedule":
                    schedules += self._schedule(name, properties)
                case kind:
                    raise TemplateError(f"its event {name} has the type {kind}, which is not supported.")
        return routes, mappings, schedules

    def _mapping(self, name: str, properties: dict[str, Any]) -> QueueMapping:
        batch_size = int(properties.get("BatchSize", 10))
        if not 1 <= batch_size <= 10:
            raise TemplateError(f"its event {name} has BatchSize {batch_size}; the local runner supports 1 to 10.")
        concurrency = (properties.get("ScalingConfig") or {}).get("MaximumConcurrency")
        return QueueMapping(
            queue=self._queue_of(name, properties["Queue"]),
            batch_size=batch_size,
            reports_failures="ReportBatchItemFailures" in (properties.get("FunctionResponseTypes") or []),
            concurrency=None if concurrency is None else int(concurrency),
        )

    def _queue_of(self, event: str, arn: str) -> str:
        for name, resource in self._resources.items():
            if resource.get("Type") == QUEUE and self._arn(name) == arn:
                return name
        raise TemplateError(f"its event {event} reads {arn}, which is not a queue in this template.")

    def _schedule(self, name: str, properties: dict[str, Any]) -> list[Schedule]:
        if properties.get("Enabled") is False or properties.get("State") == "DISABLED":
            return []
        match = RATE.fullmatch(str(properties.get("Schedule")))
        if not match:
            raise TemplateError(f"its event {name} has the schedule {properties.get('Schedule')}; use rate(5 minutes).")
        count, unit = match.groups()
        period = timedelta(**{f"{unit}s": int(count)}) * self._time_scale
        return [Schedule(name, period, properties.get("Input"))]


def _route(name: str, properties: dict[str, Any]) -> Route:
    method, path = properties.get("Method"), properties.get("Path")
    if method is None and path is None:
        return Route("ANY", "$default")
    if not method or not str(path).startswith("/"):
        raise TemplateError(f"its event {name} needs both a Method and a Path that starts with '/'.")
    return Route(str(method).upper(), str(path))


def _merged(globals_: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """As SAM merges Globals: maps are joined, everything else is replaced."""
    both = {
        key: _merged(globals_[key], own[key]) for key in globals_.keys() & own.keys() if _are_maps(globals_, own, key)
    }
    return {**globals_, **own, **both}


def _are_maps(first: dict[str, Any], second: dict[str, Any], key: str) -> bool:
    return isinstance(first[key], dict) and isinstance(second[key], dict)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
