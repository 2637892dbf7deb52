"""The rules of JobSet's own webhooks, as an admission step in the server's process."""

import json
import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from localcluster.base.errors import StatusError
from localcluster.base.hooks import AdmissionRequest
from localcluster.controllers.base.api_protocol import JOBSETS, PODS
from localcluster.controllers.base.objects import Obj, annotations_of, labels_of, with_metadata
from localcluster.controllers.jobsets import constants as words
from localcluster.controllers.jobsets.build import (
    coordinator_endpoint,
    job_name,
    replicas,
    roles_of,
)
from localcluster.controllers.jobsets.scaling import size_problems, without_sizes
from localcluster.controllers.jobsets.status import is_suspended

DEFAULTING = "mjobset.kb.io"
WEBHOOK = "vjobset.kb.io"
INT32_MAX = 2**31 - 1
MAX_LABEL = 63

_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_RULE_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_DNS_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_FAILURE_REASONS = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
# Mutable parts of a pod template while the JobSet is suspended (for queueing controllers).
_MUTABLE_METADATA = ("annotations", "labels")
_MUTABLE_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


class JobSetAdmission:
    """Admission step that defaults and validates JobSets and labels their pods.

    It follows JobSet's webhooks, but omits exclusive placement per topology domain, which is
    Muster's task here.
    """

    def __init__(self, *, scaling: bool = False) -> None:
        """Create the step; `scaling` allows changes of sizes, which v0.11.0 rejects.

        Sizes are replicas, parallelism and completions.
        """
        self._scaling = scaling

    async def mutate(self, request: AdmissionRequest) -> None:
        """Set the defaults of a new JobSet, and label a new pod of a JobSet."""
        if request.operation != "CREATE" or request.obj is None:
            return
        if _concerns_us(request):
            request.obj = _defaulted_or_refused(request.obj)
        elif _is_pod(request) and words.JOBSET_NAME in annotations_of(request.obj):
            request.obj = with_priority_label(request.obj)

    async def validate(self, request: AdmissionRequest) -> None:
        """Reject an invalid JobSet, or a change of an immutable field. Raises StatusError 403."""
        if not _concerns_us(request) or request.obj is None:
            return
        if request.operation == "CREATE":
            problems = "\n".join(creation_problems(request.obj))
        elif request.operation == "UPDATE" and request.old is not None:
            found = update_problems(request.obj, request.old, scaling=self._scaling)
            problems = found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""
        else:
            return
        if problems:
            message = f'admission webhook "{WEBHOOK}" denied the request: {problems}'
            raise StatusError(403, "Forbidden", message)


def _concerns_us(request: AdmissionRequest) -> bool:
    info = request.info
    return (info.group, info.plural, request.subresource) == (JOBSETS.group, JOBSETS.plural, "")


def _is_pod(request: AdmissionRequest) -> bool:
    info = request.info
    return (info.group, info.plural, request.subresource) == (PODS.group, PODS.plural, "")


def with_priority_label(pod: Obj) -> Obj:
    """Return the pod with its priority, if it has one, as a label too."""
    priority = pod["spec"].get("priority")
    if priority is None:
        return pod
    return with_metadata(pod, labels={**labels_of(pod), words.PRIORITY: str(priority)})


def _defaulted_or_refused(jobset: Obj) -> Obj:
    """Return the defaulted JobSet, or raise an error if it cannot be decoded.

    Defaulting runs before schema validation, so the object may have any shape.
    """
    try:
        return defaulted(jobset)
    except (AttributeError, TypeError, ValueError) as error:
        message = f'admission webhook "{DEFAULTING}" denied the request: no JobSet: {error}'
        raise StatusError(400, "BadRequest", message) from error


def defaulted(jobset: Obj) -> Obj:
    """Return the JobSet with the defaults of its webhook."""
    spec = deepcopy(jobset.get("spec") or {})
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for replicated in spec.get("replicatedJobs") or []:
        job = replicated.setdefault("template", {}).setdefault("spec", {})
        job.setdefault("completionMode", "Indexed")
        job.setdefault("template", {}).setdefault("spec", {}).setdefault(
            "restartPolicy", "OnFailure"
        )
    for place, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or []):
        rule["name"] = rule.get("name") or f"failurePolicyRule{place}"
    return {**jobset, "spec": spec}


def creation_problems(jobset: Obj) -> list[str]:
    """Return the validation errors of a new JobSet after defaulting."""
    spec = jobset["spec"]
    roles: list[Obj] = roles_of(jobset)
    names = [role["name"] for role in roles]
    problems: list[str] = []
    if roles and roles[0].get("dependsOn") is not None:
        problems.append("DependsOn can't be set for the first ReplicatedJob")
    problems += _network_problems(spec.get("network") or {})
    for place, role in enumerate(roles):
        problems += _role_problems(jobset, role, place)
        earlier = names[: place + 1]
        problems += [
            f"replicatedJob: {role['name']} cannot depend on replicatedJob: {one['name']}"
            for one in role.get("dependsOn") or []
            if one["name"] not in earlier
        ]
    problems += [
        f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs"
        for name in spec["successPolicy"].get("targetReplicatedJobs") or []
        if name not in names
    ]
    problems += _failure_policy_problems(spec.get("failurePolicy") or {}, names)
    if spec.get("coordinator"):
        problems += _coordinator_problems(jobset, spec["coordinator"])
    return problems


def update_problems(new: Obj, old: Obj, *, scaling: bool = False) -> list[str]:
    """Return the changes of immutable fields."""
    roles, before = new["spec"].get("replicatedJobs"), old["spec"].get("replicatedJobs")
    if is_suspended(new) or is_suspended(old):
        roles, before = _without_mutable(roles), _without_mutable(before)
    if scaling:
        roles, before = without_sizes(roles or []), without_sizes(before or [])
    problems = []
    if roles != before:
        problems.append(_immutable("replicatedJobs", roles))
    elif scaling:
        problems += size_problems(roles_of(new), roles_of(old))
    if new["spec"].get("managedBy") != old["spec"].get("managedBy"):
        problems.append(_immutable("managedBy", new["spec"].get("managedBy")))
    return problems


def _immutable(field: str, value: Any) -> str:
    shown = json.dumps(value, separators=(",", ":"))
    return f"spec.{field}: Invalid value: {shown}: field is immutable"


def _without_mutable(roles: Sequence[Obj] | None) -> list[Obj]:
    stripped: list[Obj] = deepcopy(list(roles or []))
    for role in stripped:
        template = role["template"]["spec"]["template"]
        meta = template.get("metadata") or {}
        for name in _MUTABLE_METADATA:
            meta.pop(name, None)
        template["metadata"] = meta
        for name in _MUTABLE_SPEC:
            template["spec"].pop(name, None)
    return stripped


def _network_problems(network: Obj) -> Iterator[str]:
    name = network.get("subdomain")
    if not name:
        return
    field = f'spec.network.subdomain: Invalid value: "{name}": '
    if not _SUBDOMAIN.fullmatch(name):
        yield field + _SUBDOMAIN_RULE
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    yield from (field + problem for problem in _label_problems(name, too_long))


def _role_problems(jobset: Obj, role: Obj, place: int) -> Iterator[str]:
    field = f"spec.replicatedJobs[{place}]"
    job = role["template"]["spec"]
    if job.get("parallelism", 1) * replicas(role) > INT32_MAX:
        yield (
            f"the product of replicas and parallelism must not exceed {INT32_MAX} "
            f"for replicatedJob '{role['name']}'"
        )
    group = role.get("groupName", "")
    too_long = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters"
    for problem in _label_problems(group, too_long):
        yield f'{field}.groupName: Invalid value: "{group}": {problem}'
    longest = job_name(jobset, role["name"], replicas(role) - 1)
    for problem in _label_problems(longest, _too_long("job")):
        yield f'{field}.name: Invalid value: "{longest}": {problem}'
    if job.get("completionMode") == "Indexed" and job.get("completions") is not None:
        pod = f"{longest}-{job['completions'] - 1}-abcde"
        for problem in _label_problems(pod, _too_long("pod")):
            yield f'{field}.name: Invalid value: "{longest}": {problem}'


def _too_long(what: str) -> str:
    return (
        f"JobSet name is too long, {what} names generated for this JobSet will exceed 63 characters"
    )


def _label_problems(name: str, too_long: str) -> Iterator[str]:
    if len(name) > MAX_LABEL:
        yield too_long
    if not _DNS_LABEL.fullmatch(name):
        yield _DNS_LABEL_RULE


def _failure_policy_problems(policy: Obj, names: Sequence[str]) -> Iterator[str]:
    rules: list[Obj] = policy.get("rules") or []
    if policy.get("restartStrategy") == "InPlaceRestart":
        yield (
            "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is "
            "disabled"
        )
    places: dict[str, list[int]] = {}
    for place, rule in enumerate(rules):
        places.setdefault(rule["name"], []).append(place)
        if not _RULE_NAME.fullmatch(rule["name"]):
            yield (
                f"invalid failure policy rule name '{rule['name']}', a failure policy rule name "
                "must start with an alphabetic character, optionally followed by a string of "
                "alphanumeric characters or '_,:', and must end with an alphanumeric character "
                "or '_'"
            )
        for name in rule.get("targetReplicatedJobs") or []:
            if name not in names:
                yield (
                    f"invalid replicatedJob name '{name}' in failure policy does not appear in "
                    ".spec.ReplicatedJobs"
                )
        for reason in rule.get("onJobFailureReasons") or []:
            if reason not in _FAILURE_REASONS:
                yield (
                    f"invalid job failure reason '{reason}' in failure policy is not a recognized "
                    "job failure reason"
                )
    for name, where in places.items():
        if len(where) > 1:
            listed = " ".join(map(str, where))
            yield (
                f"rule names are not unique, rules with indices [{listed}] all have the same "
                f"name '{name}'"
            )


def _coordinator_problems(jobset: Obj, coordinator: Obj) -> Iterator[str]:
    role = next(
        (one for one in roles_of(jobset) if one["name"] == coordinator["replicatedJob"]),
        None,
    )
    if role is None:
        yield f"coordinator replicatedJob {coordinator['replicatedJob']} does not exist"
    else:
        yield from _coordinator_place_problems(role, coordinator)
    endpoint = coordinator_endpoint(jobset)
    if len(endpoint) > MAX_LABEL or not _LABEL_VALUE.fullmatch(endpoint):
        yield (
            f'spec will lead to invalid label value "{endpoint}" for coordinator label (long '
            "JobSet / ReplicatedJob / SubDomain name?)"
        )


def _coordinator_place_problems(role: Obj, coordinator: Obj) -> Iterator[str]:
    job, index, pod = (
        role["template"]["spec"],
        coordinator.get("jobIndex", 0),
        coordinator.get("podIndex", 0),
    )
    if not 0 <= index < replicas(role):
        yield f"coordinator job index {index} is invalid for replicatedJob {role['name']}"
    elif job.get("completionMode") != "Indexed" or job.get("completions") is None:
        yield (
            "job for coordinator pod must be indexed completion mode, and completions number must "
            "be set"
        )
    elif not 0 <= pod < job["completions"]:
        yield (
            f"coordinator pod index {pod} is invalid for replicatedJob {role['name']} "
            f"job index {index}"
        )
