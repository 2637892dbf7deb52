"""All rules with their texts, the only place for the text of an error message.

A rule is a name, its fields, a Kubernetes cause reason, and a text that tells the user what to do.
The other modules of this package detect violations, and contain no texts.
"""

from dataclasses import dataclass
from typing import Any, Final

from api import causes, duration
from api.causes import Cause
from api.constants import (
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    HIGHEST_USER_PRIORITY,
    LABEL_VALUE_LENGTH,
    MAX_DEPTH,
    MAX_EXPECTED_KINDS,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_STAGE,
    MAX_EXPECTED_TEMPLATE,
    MAX_RESOURCE_CLAIMS,
    MAX_TEMPLATES,
)
from api.provisioning import CLASSES

DNS_LABEL_TEXT: Final = (
    "must be a DNS label: at most 63 lower case letters, digits or '-', "
    "starting and ending with a letter or digit"
)
DNS_SUBDOMAIN_TEXT: Final = (
    "must be a DNS subdomain: at most 253 lower case letters, digits, '-' or '.', "
    "every part starting and ending with a letter or digit"
)
LABEL_KEY_TEXT: Final = (
    "must be the key of a node label: [prefix/]name, the name at most 63 letters, digits, "
    "'-', '_' or '.', starting and ending with a letter or digit"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; `at` creates the cause for one place that violates it.

    `where` has the ends of its field paths: `[]` is a list index, `*` any field.
    """

    id: str
    where: tuple[str, ...]
    reason: str
    text: str
    limit: int = 0
    words: tuple[str, ...] = ()

    def at(self, path: str, value: Any = None) -> Cause:
        """Return the cause for `path`; `value` is the field's (a count, for a list too long)."""
        if self.reason == causes.REQUIRED:
            return causes.required(path, self.text)
        if self.reason == causes.TOO_MANY:
            return causes.too_many(path, int(value), self.limit)
        if self.reason == causes.DUPLICATE:
            return causes.duplicate(path, value)
        if self.reason == causes.NOT_SUPPORTED:
            return causes.not_supported(path, value, self.words)
        if self.reason == causes.FORBIDDEN:
            return causes.forbidden(path, self.text)
        return causes.invalid(path, value, self.text)


_R, _I, _D, _T = causes.REQUIRED, causes.INVALID, causes.DUPLICATE, causes.TOO_MANY


def _below(owners: tuple[str, ...], *fields: str) -> tuple[str, ...]:
    return tuple(f"{owner}.{field}" for owner in owners for field in fields)


_SPEC: Final = ("spec",)
_LISTS: Final = ("podGroupTemplates", "compositePodGroupTemplates")
_TEMPLATES: Final = ("podGroupTemplates[]", "compositePodGroupTemplates[]")
_COMPOSITES: Final = ("compositePodGroupTemplates[]",)
_POLICY: Final = ("schedulingPolicy",)
_MINIMUMS: Final = (
    "schedulingPolicy.gang.minCount",
    "schedulingPolicy.gang.minGroupCount",
    "spec.subsets[].minMember",
)
_TOPOLOGY_KEYS: Final = ("schedulingConstraints.topology[].key",)
_MODE: Final = ("disruptionMode",)
_REFERENCE: Final = ("spec.workloadRef",)
_PARENT: Final = ("spec.parentCompositePodGroupName",)
_CLAIM_NAMES: Final = ("resourceClaims[].name",)
_EXPECTED_NAMES: Final = ("spec.expectedPods[].name",)
_CLAIM_REFERENCES: Final = (
    "resourceClaims[].resourceClaimName",
    "resourceClaims[].resourceClaimTemplateName",
    "status.resourceClaimStatuses[].resourceClaimName",
)

TEMPLATES_MISSING: Final = Rule(
    "templates-missing", _SPEC, _R, "set one of podGroupTemplates and compositePodGroupTemplates"
)
TEMPLATES_BOTH: Final = Rule(
    "templates-both",
    _SPEC,
    _I,
    "set either podGroupTemplates or compositePodGroupTemplates, not both",
)
TEMPLATES_TOO_MANY: Final = Rule("templates-too-many", _LISTS, _T, "", MAX_TEMPLATES)
TEMPLATE_NAME_REQUIRED: Final = Rule(
    "template-name-required", _below(_TEMPLATES, "name"), _R, "every template needs a name"
)
TEMPLATE_NAME: Final = Rule("template-name", _below(_TEMPLATES, "name"), _I, DNS_LABEL_TEXT)
TEMPLATE_NAME_DUPLICATE: Final = Rule("template-name-duplicate", _below(_TEMPLATES, "name"), _D, "")
COMPOSITE_EMPTY: Final = Rule(
    "composite-empty",
    _COMPOSITES,
    _I,
    "a composite template needs at least one child in podGroupTemplates or "
    "compositePodGroupTemplates",
)
TREE_DEPTH: Final = Rule(
    "tree-depth", _COMPOSITES, _I, f"maximum template hierarchy depth is {MAX_DEPTH}", MAX_DEPTH
)
POLICY_REQUIRED: Final = Rule("policy-required", _POLICY, _R, "set one of basic and gang")
POLICY_UNLESS_TEMPLATE: Final = Rule(
    "policy-required", _POLICY, _R, "set one of basic and gang, or name a template in workloadRef"
)
POLICY_ONE: Final = Rule("policy-one", _POLICY, _I, "must specify exactly one of `basic`, `gang`")
MINIMUM_REQUIRED: Final = Rule("minimum-required", _MINIMUMS, _R, "must be 1 or more")
MINIMUM_TOO_LOW: Final = Rule(
    "minimum-too-low",
    (*_MINIMUMS, "spec.scheduleTimeoutSeconds"),
    _I,
    "must be greater than or equal to 1",
)
TOPOLOGY_TOO_MANY: Final = Rule("topology-too-many", ("schedulingConstraints.topology",), _T, "", 1)
TOPOLOGY_KEY_REQUIRED: Final = Rule(
    "topology-key-required", _TOPOLOGY_KEYS, _R, "name a node label"
)
TOPOLOGY_KEY: Final = Rule("topology-key", _TOPOLOGY_KEYS, _I, LABEL_KEY_TEXT)
MODE_ONE: Final = Rule(
    "disruption-mode-one", _MODE, _I, "must specify exactly one of `single`, `all`"
)
MODE_UNDER_ALL: Final = Rule(
    "disruption-mode-under-all",
    _below(_TEMPLATES, *_MODE),
    _I,
    "must be `all`, as every child of a composite template of mode `all`",
)
PRIORITY_CLASS_NAME: Final = Rule(
    "priority-class-name", ("priorityClassName",), _I, DNS_SUBDOMAIN_TEXT
)
PRIORITY_CLASS_DIFFERS: Final = Rule(
    "priority-class-differs",
    _below(_TEMPLATES, "priorityClassName"),
    _I,
    "must be the same in every template of the Workload",
)
PRIORITY_DIFFERS: Final = Rule(
    "priority-differs",
    _below(_TEMPLATES, "priority"),
    _I,
    "must be the same in every template of the Workload",
)
PRIORITY_MAXIMUM: Final = Rule(
    "priority-maximum", ("priority",), _I, f"must be less than or equal to {HIGHEST_USER_PRIORITY}"
)
PREEMPTION_POLICY: Final = Rule(
    "preemption-policy",
    ("preemptionPolicy",),
    causes.NOT_SUPPORTED,
    "",
    words=("PreemptLowerPriority", "Never"),
)
WORKLOAD_REF_REQUIRED: Final = Rule(
    "workload-ref-required", _REFERENCE, _R, "a composite group names the template it is made from"
)
WORKLOAD_REF_FOR_PARENT: Final = Rule(
    "workload-ref-for-parent", _REFERENCE, _R, "a group with a parent needs a workloadRef"
)
WORKLOAD_NAME_REQUIRED: Final = Rule(
    "workload-name-required", _below(_REFERENCE, "workloadName"), _R, "name the Workload"
)
WORKLOAD_NAME: Final = Rule(
    "workload-name", _below(_REFERENCE, "workloadName"), _I, DNS_SUBDOMAIN_TEXT
)
TEMPLATE_REF_REQUIRED: Final = Rule(
    "template-ref-required",
    _below(_REFERENCE, "templateName"),
    _R,
    "name the template within the Workload",
)
TEMPLATE_REF: Final = Rule("template-ref", _below(_REFERENCE, "templateName"), _I, DNS_LABEL_TEXT)
PARENT_NAME: Final = Rule("parent-name", _PARENT, _I, DNS_SUBDOMAIN_TEXT)
OWN_PARENT: Final = Rule("own-parent", _PARENT, _I, "a composite group cannot be its own parent")
CONTROLLER_KIND_REQUIRED: Final = Rule(
    "controller-kind-required", ("spec.controllerRef.kind",), _R, "name the owner's kind"
)
CONTROLLER_NAME_REQUIRED: Final = Rule(
    "controller-name-required", ("spec.controllerRef.name",), _R, "name the owner"
)
CONTROLLER_SEGMENT: Final = Rule(
    "controller-segment",
    ("spec.controllerRef.kind", "spec.controllerRef.name"),
    _I,
    "must be a path segment: not '.' or '..', without '/' and '%'",
)
CONTROLLER_GROUP: Final = Rule(
    "controller-group", ("spec.controllerRef.apiGroup",), _I, DNS_SUBDOMAIN_TEXT
)
CLAIMS_TOO_MANY: Final = Rule("claims-too-many", ("resourceClaims",), _T, "", MAX_RESOURCE_CLAIMS)
CLAIM_NAME_REQUIRED: Final = Rule(
    "claim-name-required", _CLAIM_NAMES, _R, "every claim needs a name"
)
CLAIM_NAME: Final = Rule("claim-name", _CLAIM_NAMES, _I, DNS_LABEL_TEXT)
CLAIM_NAME_DUPLICATE: Final = Rule("claim-name-duplicate", _CLAIM_NAMES, _D, "")
CLAIM_ONE: Final = Rule(
    "claim-one",
    ("resourceClaims[]",),
    _I,
    "must specify exactly one of `resourceClaimName`, `resourceClaimTemplateName`",
)
CLAIM_REFERENCE: Final = Rule("claim-reference", _CLAIM_REFERENCES, _I, DNS_SUBDOMAIN_TEXT)
EXPECTED_TOO_MANY: Final = Rule(
    "expected-too-many", ("spec.expectedPods",), _T, "", MAX_EXPECTED_KINDS
)
EXPECTED_NAME_REQUIRED: Final = Rule(
    "expected-name-required", _EXPECTED_NAMES, _R, "every kind of pods needs a name"
)
EXPECTED_NAME: Final = Rule("expected-name", _EXPECTED_NAMES, _I, DNS_LABEL_TEXT)
EXPECTED_NAME_DUPLICATE: Final = Rule("expected-name-duplicate", _EXPECTED_NAMES, _D, "")
EXPECTED_COUNT: Final = Rule(
    "expected-count",
    ("spec.expectedPods[].count",),
    _I,
    f"must be 0 to {MAX_EXPECTED_PODS}",
)
EXPECTED_STAGE: Final = Rule(
    "expected-stage",
    ("spec.expectedPods[].stage",),
    _I,
    f"must be 0 to {MAX_EXPECTED_STAGE}; 0 is beside the pods of any stage",
)
EXPECTED_CONTAINERS: Final = Rule(
    "expected-containers",
    ("spec.expectedPods[].template.spec.containers",),
    _R,
    "say what the pods request: at least one container, as in the owner's template",
)
EXPECTED_TEMPLATE_SIZE: Final = Rule(
    "expected-template-size",
    ("spec.expectedPods[].template",),
    _I,
    f"must be at most {MAX_EXPECTED_TEMPLATE} bytes as JSON: leave out what does not decide where "
    "the pods may run, such as env and volumeMounts",
)
CLAIM_STATUS_UNKNOWN: Final = Rule(
    "claim-status-unknown",
    ("status.resourceClaimStatuses[].name",),
    _I,
    "must be the name of an entry of spec.resourceClaims",
)
TEMPLATE_REF_DIFFERS: Final = Rule(
    "template-ref-differs",
    ("spec.podGroupTemplateRef.name",),
    _I,
    "must be the same as podGroupTemplateName; set one of the two",
)
SUBSETS_REQUIRED: Final = Rule(
    "subsets-required", ("spec.subsets",), _R, "name at least one subset"
)
SUBSETS_TOO_MANY: Final = Rule("subsets-too-many", ("spec.subsets",), _T, "", MAX_TEMPLATES)
SUBSET_NAME_REQUIRED: Final = Rule(
    "subset-name-required",
    ("spec.subsets[].name",),
    _R,
    "every subset needs a name when there are several",
)
SUBSET_NAME: Final = Rule("subset-name", ("spec.subsets[].name",), _I, DNS_LABEL_TEXT)
SUBSET_NAME_DUPLICATE: Final = Rule("subset-name-duplicate", ("spec.subsets[].name",), _D, "")
PARENT_DELETING: Final = Rule(
    "parent-deleting", _PARENT, causes.FORBIDDEN, "the group it belongs to is being deleted"
)
PREEMPTION_DELAY: Final = Rule(
    "preemption-delay", (f"metadata.annotations[{ANNOTATION_PREEMPTION_DELAY}]",), _I, duration.TEXT
)
PROVISIONING_REQUEST: Final = Rule(
    "provisioning-request",
    (f"metadata.annotations[{ANNOTATION_PROVISIONING_REQUEST}]",),
    causes.NOT_SUPPORTED,
    "",
    words=CLASSES,
)

IMMUTABLE: Final = Rule("immutable", ("spec.*",), _I, causes.IMMUTABLE_TEXT)

NAME_TOO_LONG_WARNING: Final = (
    f"metadata.name: more than {LABEL_VALUE_LENGTH} characters: no pod can name this group by a "
    "label; use spec.schedulingGroup (Kubernetes 1.36) or a shorter name"
)

ALL: Final = tuple(value for value in globals().values() if isinstance(value, Rule))
