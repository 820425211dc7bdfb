"""The edge: off unless asked for, believed only beside its key, and what it may keep. Each check returns problems."""

from typing import Any

from local.cloudformation import Resolver
from tests.support.template_checks import Problems, Template, routes_of

EDGE = ("Distribution", "EdgeCache", "EdgeViewer", "EdgeSecret")
KEY = {"Fn::Sub": "{{resolve:secretsmanager:${EdgeSecret}:SecretString:edgeKey}}"}
NO_HOST = "b689b0a8-53d0-40ab-baf2-68738e2966ac"  # AWS's AllViewerExceptHostHeader
FAILURES = {500, 502, 503, 504}
# What costs more than a read, and what could be guessed.
THROTTLED = ("submissions", "discover", "/submit", "sign-in", "challenge", "device", "prov", "proofs")
READERS = ("POST /api/v1/skills/{proxy+}", "POST /skills/{proxy+}")  # reports, installs, updates
CALLS_OF_SIGNED_IN_OWNERS = "/owner/submissions/"


def edge_problems(template: Template) -> Problems:
    resources = template["Resources"]
    problems = [f"{name}: not by parameter" for name in EDGE if resources.get(name, {}).get("Condition") != "UsesEdge"]
    if template["Parameters"].get("Edge", {}).get("Default") != "off":
        problems.append("the edge is on by default")
    variable = template["Globals"]["Function"]["Environment"]["Variables"].get("EDGE_KEY")
    if variable != {"Fn::If": ["UsesEdge", KEY, ""]}:
        problems.append("functions do not know the edge by its key alone")
    config = resources.get("Distribution", {}).get("Properties", {}).get("DistributionConfig", {})
    return problems + _distribution_problems(template, config) + _cache_problems(template)


def _distribution_problems(template: Template, config: Any) -> Problems:
    problems = []
    headers = [header for origin in config.get("Origins", []) for header in origin.get("OriginCustomHeaders", [])]
    if headers != [{"HeaderName": "x-edge-key", "HeaderValue": KEY}]:
        problems.append("the edge does not show its key")
    behaviour = config.get("DefaultCacheBehavior", {})
    code = template["Resources"].get("EdgeViewer", {}).get("Properties", {}).get("FunctionCode", "")
    if "request.headers['x-viewer-address'] = {value: event.viewer.ip}" not in code or not behaviour.get(
        "FunctionAssociations"
    ):
        problems.append("limits would count edges, or what viewers claim")
    if behaviour.get("OriginRequestPolicyId") != NO_HOST:
        problems.append("the API would be asked under a host that it does not know")
    if behaviour.get("ViewerProtocolPolicy") != "redirect-to-https":
        problems.append("the edge answers without TLS")
    if _web_acl(template, {}) is not None or _web_acl(template, {"Edge": "on", "WebAclArn": "acl"}) != "acl":
        problems.append("the web ACL guards nothing")
    kept = {e["ErrorCode"]: e.get("ErrorCachingMinTTL") for e in config.get("CustomErrorResponses", [])}
    if kept != dict.fromkeys(FAILURES, 0):
        problems.append("a failure that has passed would be answered for ten seconds more")
    return problems


def _web_acl(template: Template, parameters: dict[str, str]) -> Any:
    config = template["Resources"].get("Distribution", {}).get("Properties", {}).get("DistributionConfig", {})
    resolver = Resolver(template, parameters, "us-east-1", lambda name: None, lambda name, attribute: None)
    return resolver.resolve({"acl": config.get("WebACLId")}).get("acl")


def _cache_problems(template: Template) -> Problems:
    config = template["Resources"].get("EdgeCache", {}).get("Properties", {}).get("CachePolicyConfig", {})
    key = config.get("ParametersInCacheKeyAndForwardedToOrigin", {})
    problems = (
        [] if (config.get("MinTTL"), config.get("DefaultTTL")) == (0, 0) else ["the edge keeps what we did not allow"]
    )
    apart = (
        key.get("CookiesConfig", {}).get("CookieBehavior"),
        key.get("QueryStringsConfig", {}).get("QueryStringBehavior"),
    )
    if apart != ("all", "all") or "Authorization" not in key.get("HeadersConfig", {}).get("Headers", []):
        problems.append("one caller could get the answer of another")
    return problems


def throttle_problems(template: Template) -> Problems:
    settings = template["Resources"]["Api"]["Properties"].get("RouteSettings", {})
    routes = {route for _, route in routes_of(template)}
    problems = [f"{route}: throttled, and not there" for route in settings.keys() - routes]
    wanted = {route for route in routes if _needs_throttle(route)}
    problems += [f"{route}: nothing but the limit of all routes together" for route in sorted(wanted - settings.keys())]
    return problems + [
        f"{route}: throttled less than all routes together"
        for route, limits in settings.items()
        if limits["ThrottlingRateLimit"] > 20 or limits["ThrottlingBurstLimit"] > 50
    ]


def _needs_throttle(route: str) -> bool:
    method, _, path = route.partition(" ")
    if route in READERS:
        return True
    is_public = method == "POST" and "{" not in path and not path.startswith("/api/v1/admin")
    return is_public and path.endswith(THROTTLED)


EDGE_CHECKS = (edge_problems, throttle_problems)
