"""Validation of webhook configurations."""

import base64
import binascii
import re
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import duplicate, invalid, not_supported, required
from localcluster.base.meta import subdomain_problem
from localcluster.schemas import cel

Object = dict[str, Any]

CONDITION_VARIABLES = ("object", "oldObject", "request")
REVIEW_VERSIONS = ("v1", "v1beta1")
MAX_CONDITIONS = 64
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_CONDITION_NAME = re.compile(r"(?:[-a-z0-9.]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def check_configuration(config: Object, *, mutating: bool) -> list[Cause]:
    """Return every reason to reject a mutating or validating webhook configuration."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, hook in enumerate(config.get("webhooks") or ()):
        path = f"webhooks[{index}]"
        causes += _check_hook(hook, path, mutating=mutating)
        name = hook.get("name") or ""
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
    return causes


def _check_hook(hook: Object, path: str, *, mutating: bool) -> list[Cause]:
    causes = _check_name(hook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(hook.get("rules") or ()):
        causes += _check_rule(rule, f"{path}.rules[{index}]")
    causes += _one_of(hook, path, "failurePolicy", ("Fail", "Ignore"))
    causes += _one_of(hook, path, "matchPolicy", ("Equivalent", "Exact"))
    if hook.get("sideEffects") is None:
        detail = "must specify one of None, NoneOnDryRun"
        causes.append(required(f"{path}.sideEffects", detail))
    causes += _one_of(hook, path, "sideEffects", ("None", "NoneOnDryRun"))
    if mutating:
        causes += _one_of(hook, path, "reinvocationPolicy", ("IfNeeded", "Never"))
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        causes.append(invalid(f"{path}.timeoutSeconds", timeout, detail))
    for selector in ("namespaceSelector", "objectSelector"):
        causes += _check_selector(hook.get(selector) or {}, f"{path}.{selector}")
    causes += check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    causes += _check_conditions(hook.get("matchConditions") or [], f"{path}.matchConditions")
    versions = hook.get("admissionReviewVersions") or []
    return causes + check_versions(versions, f"{path}.admissionReviewVersions")


def _one_of(hook: Object, path: str, field: str, supported: tuple[str, ...]) -> list[Cause]:
    value = hook.get(field)
    if value is None or value in supported:
        return []
    return [not_supported(f"{path}.{field}", value, supported)]


def _check_name(name: str, path: str) -> list[Cause]:
    if not name:
        return [required(path)]
    if problem := subdomain_problem(name):
        return [invalid(path, name, problem)]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, detail)]
    return []


def _check_rule(rule: Object, path: str) -> list[Cause]:
    operations = rule.get("operations") or []
    causes = [] if operations else [required(f"{path}.operations")]
    if len(operations) > 1 and "*" in operations:
        detail = "if '*' is present, must not specify other operations"
        causes.append(invalid(f"{path}.operations", operations, detail))
    causes += [
        not_supported(f"{path}.operations[{index}]", one, _OPERATIONS)
        for index, one in enumerate(operations)
        if one not in _OPERATIONS
    ]
    for field, word in (("apiGroups", "groups"), ("apiVersions", "versions")):
        values = rule.get(field) or []
        if not values:
            causes.append(required(f"{path}.{field}"))
        if len(values) > 1 and "*" in values:
            detail = f"if '*' is present, must not specify other API {word}"
            causes.append(invalid(f"{path}.{field}", values, detail))
    for index, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            causes.append(required(f"{path}.apiVersions[{index}]"))
    causes += _check_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        causes.append(not_supported(f"{path}.scope", rule["scope"], _SCOPES))
    return causes


def _check_resources(names: list[str], path: str) -> list[Cause]:
    if not names:
        return [required(path)]
    causes = []
    whole = {name.split("/")[0] for name in names if name.endswith("/*")}
    anywhere = {name.split("/")[1] for name in names if name.startswith("*/")}
    for index, name in enumerate(names):
        here = f"{path}[{index}]"
        resource, _, sub = name.partition("/")
        if not name:
            causes.append(required(here))
        elif sub not in {"", "*"} and resource in whole:
            detail = f"if '{resource}/*' is present, must not specify {name}"
            causes.append(invalid(here, name, detail))
        elif sub and resource != "*" and sub in anywhere:
            detail = f"if '*/{sub}' is present, must not specify {name}"
            causes.append(invalid(here, name, detail))
    if "*/*" in names and len(names) > 1:
        detail = "if '*/*' is present, must not specify other resources"
        causes.append(invalid(path, names, detail))
    if "*" in names and any("/" not in name and name != "*" for name in names):
        detail = "if '*' is present, must not specify other resources without subresources"
        causes.append(invalid(path, names, detail))
    return causes


def _check_selector(selector: Object, path: str) -> list[Cause]:
    causes = []
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator") or "", expression.get("values") or []
        if operator not in _SELECTOR_OPERATORS:
            causes.append(invalid(f"{here}.operator", operator, "not a valid selector operator"))
        elif operator in {"In", "NotIn"} and not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(required(f"{here}.values", detail))
        elif operator in {"Exists", "DoesNotExist"} and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(Cause(f"{here}.values", "FieldValueForbidden", f"Forbidden: {detail}"))
    return causes


def check_client(client: Object, path: str) -> list[Cause]:
    """Return every reason to reject the clientConfig at a path."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    causes = _check_url(url, f"{path}.url") if url is not None else []
    causes += _check_service(service, f"{path}.service") if service is not None else []
    if client.get("caBundle"):
        causes += _check_bundle(client["caBundle"], f"{path}.caBundle")
    return causes


def _check_url(url: str, path: str) -> list[Cause]:
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    causes = []
    if parts.scheme != "https":
        detail = "'https' is the only allowed URL scheme"
        causes.append(invalid(path, parts.scheme, detail + form))
    if not parts.netloc:
        causes.append(invalid(path, parts.netloc, "host must be specified" + form))
    if "@" in parts.netloc:
        causes.append(invalid(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        detail = "fragments are not permitted in the URL"
        causes.append(invalid(path, parts.fragment, detail))
    if parts.query:
        detail = "query parameters are not permitted in the URL"
        causes.append(invalid(path, parts.query, detail))
    return causes


def _check_service(service: Object, path: str) -> list[Cause]:
    causes = [
        required(f"{path}.{field}", f"service {field} is required")
        for field in ("name", "namespace")
        if not service.get(field)
    ]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{path}.port", port, detail))
    url_path = service.get("path")
    if url_path is None or url_path == "/":
        return causes
    if not url_path.startswith("/"):
        causes.append(invalid(f"{path}.path", url_path, "must start with a '/'"))
    steps = url_path[1:].removesuffix("/").split("/")
    causes += [
        invalid(f"{path}.path", url_path, f"segment[{index}] may not be empty")
        for index, step in enumerate(steps)
        if not step
    ]
    return causes


def _check_bundle(bundle: str, path: str) -> list[Cause]:
    try:
        bundle_context(bundle)
    except (ValueError, ssl.SSLError, binascii.Error) as error:
        detail = f"unable to load root certificates: {error}"
        return [invalid(path, "<unable to parse>", detail)]
    return []


def bundle_context(bundle: str) -> ssl.SSLContext:
    """Return a context that trusts only the PEM certificates of a base64 caBundle.

    Raises ValueError, ssl.SSLError or binascii.Error for an invalid bundle.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=base64.b64decode(bundle, validate=True).decode("ascii"))
    return context


def _check_conditions(conditions: list[Object], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if len(conditions) > MAX_CONDITIONS:
        detail = f"Too many: {len(conditions)}: must have at most {MAX_CONDITIONS} items"
        causes.append(Cause(path, "FieldValueTooMany", detail))
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name") or ""
        causes += _check_expression((condition.get("expression") or "").strip(), here)
        if not name:
            causes.append(required(f"{here}.name"))
        elif not _CONDITION_NAME.fullmatch(name):
            causes.append(invalid(f"{here}.name", name, "must be a qualified name"))
        elif name in seen:
            causes.append(duplicate(f"{here}.name", name))
        seen.add(name)
    return causes


def _check_expression(text: str, path: str) -> list[Cause]:
    if not text:
        return [required(f"{path}.expression")]
    try:
        cel.compile_condition(text, CONDITION_VARIABLES)
    except cel.CompileError as error:
        return [cel.refusal(f"{path}.expression", error)]
    return []


def check_versions(versions: list[str], path: str) -> list[Cause]:
    """Return every reason to reject a list of review versions at a path."""
    known = ", ".join(REVIEW_VERSIONS)
    if not versions:
        return [required(path, f"must specify one of {known}")]
    causes = []
    is_label: Callable[[str], object] = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(invalid(f"{path}[{index}]", version, "duplicate version"))
        elif not is_label(version):
            causes.append(invalid(f"{path}[{index}]", version, "must be a DNS-1035 label"))
    if not set(versions) & set(REVIEW_VERSIONS):
        causes.append(invalid(path, versions, f"must include at least one of {known}"))
    return causes
