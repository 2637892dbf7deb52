"""All rules with their texts, the only place for the text of an error message.

A rule is a name, its fields, a Kubernetes cause reason, and a text that tells the user what to do.
The other modules of this package detect violations, and contain no texts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from api import causes, duration, eviction, slices
from api.causes import Cause
from api.constants import (
    ANNOTATION_DEFRAGMENT_UNTIL,
    ANNOTATION_EVICTION_COST,
    ANNOTATION_HOLD_FROM,
    ANNOTATION_LAST_CHECKPOINT,
    ANNOTATION_MIN_RUN_TIME,
    ANNOTATION_MOVABLE,
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    ANNOTATION_START_TIMEOUT,
    HIGHEST_USER_PRIORITY,
    HOLD_FROM_CREATION,
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
    "must be a lowercase RFC 1123 label: at most 63 lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
DNS_SUBDOMAIN_TEXT: Final = (
    "must be a lowercase RFC 1123 subdomain: at most 253 lower case alphanumeric characters, '-' "
    "or '.', and must start and end with an alphanumeric character"
)
LABEL_KEY_TEXT: Final = (
    "must be a label key: an optional prefix and '/', and a name part that must consist of at "
    "most 63 alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
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
    "templates-missing",
    _SPEC,
    _R,
    "must specify one of `podGroupTemplates`, `compositePodGroupTemplates`",
)
TEMPLATES_BOTH: Final = Rule(
    "templates-both",
    _SPEC,
    _I,
    "must specify exactly one of `podGroupTemplates`, `compositePodGroupTemplates`",
)
TEMPLATES_TOO_MANY: Final = Rule("templates-too-many", _LISTS, _T, "", MAX_TEMPLATES)
TEMPLATE_NAME_REQUIRED: Final = Rule(
    "template-name-required", _below(_TEMPLATES, "name"), _R, "each template must have a name"
)
TEMPLATE_NAME: Final = Rule("template-name", _below(_TEMPLATES, "name"), _I, DNS_LABEL_TEXT)
TEMPLATE_NAME_DUPLICATE: Final = Rule("template-name-duplicate", _below(_TEMPLATES, "name"), _D, "")
COMPOSITE_EMPTY: Final = Rule(
    "composite-empty",
    _COMPOSITES,
    _I,
    "must have at least one child in podGroupTemplates or compositePodGroupTemplates",
)
TREE_DEPTH: Final = Rule(
    "tree-depth", _COMPOSITES, _I, f"maximum template hierarchy depth is {MAX_DEPTH}", MAX_DEPTH
)
POLICY_REQUIRED: Final = Rule("policy-required", _POLICY, _R, "must specify one of `basic`, `gang`")
POLICY_UNLESS_TEMPLATE: Final = Rule(
    "policy-required",
    _POLICY,
    _R,
    "must specify one of `basic`, `gang`, or a template in workloadRef",
)
POLICY_ONE: Final = Rule("policy-one", _POLICY, _I, "must specify exactly one of `basic`, `gang`")
MINIMUM_REQUIRED: Final = Rule(
    "minimum-required", _MINIMUMS, _R, "must be greater than or equal to 1"
)
MINIMUM_TOO_LOW: Final = Rule(
    "minimum-too-low",
    (*_MINIMUMS, "spec.scheduleTimeoutSeconds"),
    _I,
    "must be greater than or equal to 1",
)
TOPOLOGY_TOO_MANY: Final = Rule("topology-too-many", ("schedulingConstraints.topology",), _T, "", 1)
TOPOLOGY_KEY_REQUIRED: Final = Rule(
    "topology-key-required",
    _TOPOLOGY_KEYS,
    _R,
    "set the key of a node label or of a device attribute",
)
TOPOLOGY_KEY: Final = Rule("topology-key", _TOPOLOGY_KEYS, _I, LABEL_KEY_TEXT)
MODE_ONE: Final = Rule(
    "disruption-mode-one", _MODE, _I, "must specify exactly one of `single`, `all`"
)
MODE_UNDER_ALL: Final = Rule(
    "disruption-mode-under-all",
    _below(_TEMPLATES, *_MODE),
    _I,
    "must be `all`, because the composite template above has mode `all`",
)
PRIORITY_CLASS_NAME: Final = Rule(
    "priority-class-name", ("priorityClassName",), _I, DNS_SUBDOMAIN_TEXT
)
PRIORITY_CLASS_DIFFERS: Final = Rule(
    "priority-class-differs",
    _below(_TEMPLATES, "priorityClassName"),
    _I,
    "must be the same in all templates of the Workload",
)
PRIORITY_DIFFERS: Final = Rule(
    "priority-differs",
    _below(_TEMPLATES, "priority"),
    _I,
    "must be the same in all templates of the Workload",
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
    "workload-ref-required",
    _REFERENCE,
    _R,
    "a CompositePodGroup must name the template that it is created from",
)
WORKLOAD_REF_FOR_PARENT: Final = Rule(
    "workload-ref-for-parent",
    _REFERENCE,
    _R,
    "a group with a parent must name the template that it is created from",
)
WORKLOAD_NAME_REQUIRED: Final = Rule(
    "workload-name-required", _below(_REFERENCE, "workloadName"), _R, "set the name of the Workload"
)
WORKLOAD_NAME: Final = Rule(
    "workload-name", _below(_REFERENCE, "workloadName"), _I, DNS_SUBDOMAIN_TEXT
)
TEMPLATE_REF_REQUIRED: Final = Rule(
    "template-ref-required",
    _below(_REFERENCE, "templateName"),
    _R,
    "set the name of a template of the Workload",
)
TEMPLATE_REF: Final = Rule("template-ref", _below(_REFERENCE, "templateName"), _I, DNS_LABEL_TEXT)
PARENT_NAME: Final = Rule("parent-name", _PARENT, _I, DNS_SUBDOMAIN_TEXT)
OWN_PARENT: Final = Rule("own-parent", _PARENT, _I, "a CompositePodGroup cannot be its own parent")
CONTROLLER_KIND_REQUIRED: Final = Rule(
    "controller-kind-required", ("spec.controllerRef.kind",), _R, "set the kind of the owner"
)
CONTROLLER_NAME_REQUIRED: Final = Rule(
    "controller-name-required", ("spec.controllerRef.name",), _R, "set the name of the owner"
)
CONTROLLER_SEGMENT: Final = Rule(
    "controller-segment",
    ("spec.controllerRef.kind", "spec.controllerRef.name"),
    _I,
    "must be a path segment: may not be '.' or '..', and may not contain '/' or '%'",
)
CONTROLLER_GROUP: Final = Rule(
    "controller-group", ("spec.controllerRef.apiGroup",), _I, DNS_SUBDOMAIN_TEXT
)
CLAIMS_TOO_MANY: Final = Rule("claims-too-many", ("resourceClaims",), _T, "", MAX_RESOURCE_CLAIMS)
CLAIM_NAME_REQUIRED: Final = Rule(
    "claim-name-required", _CLAIM_NAMES, _R, "each claim must have a name"
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
    "expected-name-required", _EXPECTED_NAMES, _R, "each kind of pods must have a name"
)
EXPECTED_NAME: Final = Rule("expected-name", _EXPECTED_NAMES, _I, DNS_LABEL_TEXT)
EXPECTED_NAME_DUPLICATE: Final = Rule("expected-name-duplicate", _EXPECTED_NAMES, _D, "")
EXPECTED_COUNT: Final = Rule(
    "expected-count",
    ("spec.expectedPods[].count",),
    _I,
    f"must be between 0 and {MAX_EXPECTED_PODS}, inclusive",
)
EXPECTED_STAGE: Final = Rule(
    "expected-stage",
    ("spec.expectedPods[].stage",),
    _I,
    f"must be between 0 and {MAX_EXPECTED_STAGE}, inclusive: pods of stage 0 run at the same time "
    "as pods of any stage",
)
EXPECTED_CONTAINERS: Final = Rule(
    "expected-containers",
    ("spec.expectedPods[].template.spec.containers",),
    _R,
    "set at least one container with its resource requests, as in the owner's template",
)
EXPECTED_TEMPLATE_SIZE: Final = Rule(
    "expected-template-size",
    ("spec.expectedPods[].template",),
    _I,
    f"must be at most {MAX_EXPECTED_TEMPLATE} bytes as JSON: remove fields that do not restrict "
    "where the pods may run, such as env and volumeMounts",
)
CLAIM_STATUS_UNKNOWN: Final = Rule(
    "claim-status-unknown",
    ("status.resourceClaimStatuses[].name",),
    _I,
    "must match the name of an entry in `spec.resourceClaims`",
)
TEMPLATE_REF_DIFFERS: Final = Rule(
    "template-ref-differs",
    ("spec.podGroupTemplateRef.name",),
    _I,
    "must be the same as podGroupTemplateName: set only one of them",
)
SUBSETS_REQUIRED: Final = Rule(
    "subsets-required", ("spec.subsets",), _R, "must have at least one subset"
)
SUBSETS_TOO_MANY: Final = Rule("subsets-too-many", ("spec.subsets",), _T, "", MAX_TEMPLATES)
SUBSET_NAME_REQUIRED: Final = Rule(
    "subset-name-required",
    ("spec.subsets[].name",),
    _R,
    "each subset must have a name if there are several",
)
SUBSET_NAME: Final = Rule("subset-name", ("spec.subsets[].name",), _I, DNS_LABEL_TEXT)
SUBSET_NAME_DUPLICATE: Final = Rule("subset-name-duplicate", ("spec.subsets[].name",), _D, "")
PARENT_DELETING: Final = Rule(
    "parent-deleting", _PARENT, causes.FORBIDDEN, "the parent CompositePodGroup is being deleted"
)
PREEMPTION_DELAY: Final = Rule(
    "preemption-delay", (f"metadata.annotations[{ANNOTATION_PREEMPTION_DELAY}]",), _I, duration.TEXT
)
MIN_RUN_TIME: Final = Rule(
    "min-run-time", (f"metadata.annotations[{ANNOTATION_MIN_RUN_TIME}]",), _I, duration.TEXT
)
EVICTION_COST: Final = Rule(
    "eviction-cost", (f"metadata.annotations[{ANNOTATION_EVICTION_COST}]",), _I, eviction.COST_TEXT
)
LAST_CHECKPOINT: Final = Rule(
    "last-checkpoint",
    (f"metadata.annotations[{ANNOTATION_LAST_CHECKPOINT}]",),
    _I,
    eviction.CHECKPOINT_TEXT,
)
MOVABLE: Final = Rule(
    "movable", (f"metadata.annotations[{ANNOTATION_MOVABLE}]",), _I, eviction.MOVABLE_TEXT
)
DEFRAGMENT_UNTIL: Final = Rule(
    "defragment-until",
    (f"metadata.annotations[{ANNOTATION_DEFRAGMENT_UNTIL}]",),
    _I,
    eviction.CHECKPOINT_TEXT,
)
START_TIMEOUT: Final = Rule(
    "start-timeout",
    (f"metadata.annotations[{ANNOTATION_START_TIMEOUT}]",),
    _I,
    duration.POSITIVE_TEXT,
)
READ: Final[Mapping[str, tuple[Rule, Callable[[Any], float | None]]]] = {
    ANNOTATION_PREEMPTION_DELAY: (PREEMPTION_DELAY, duration.seconds),
    ANNOTATION_MIN_RUN_TIME: (MIN_RUN_TIME, duration.seconds),
    ANNOTATION_EVICTION_COST: (EVICTION_COST, eviction.eviction_cost),
    ANNOTATION_LAST_CHECKPOINT: (LAST_CHECKPOINT, eviction.checkpoint),
    ANNOTATION_MOVABLE: (MOVABLE, eviction.movable),
    ANNOTATION_DEFRAGMENT_UNTIL: (DEFRAGMENT_UNTIL, eviction.checkpoint),
    ANNOTATION_START_TIMEOUT: (START_TIMEOUT, duration.positive_seconds),
}
"""By annotation, the rule and the function that reads it, which returns None if it is invalid."""

PROVISIONING_REQUEST: Final = Rule(
    "provisioning-request",
    (f"metadata.annotations[{ANNOTATION_PROVISIONING_REQUEST}]",),
    causes.NOT_SUPPORTED,
    "",
    words=CLASSES,
)

_SLICE_SIZE: Final = (f"metadata.annotations[{ANNOTATION_SLICE_SIZE}]",)
_SLICE_TOPOLOGY: Final = (f"metadata.annotations[{ANNOTATION_SLICE_TOPOLOGY}]",)
SLICE_SIZE: Final = Rule("slice-size", _SLICE_SIZE, _I, slices.SIZE_TEXT)
SLICE_SIZE_REQUIRED: Final = Rule("slice-size-required", _SLICE_SIZE, _R, slices.SIZE_MISSING_TEXT)
SLICE_TOPOLOGY: Final = Rule("slice-topology", _SLICE_TOPOLOGY, _I, slices.TOPOLOGY_TEXT)
SLICE_TOPOLOGY_REQUIRED: Final = Rule(
    "slice-topology-required", _SLICE_TOPOLOGY, _R, slices.TOPOLOGY_MISSING_TEXT
)
SLICE_LEAF: Final = Rule("slice-leaf", _SLICE_SIZE, _I, slices.LEAF_TEXT)
SLICE_EXPECTED: Final = Rule("slice-expected", _SLICE_SIZE, _I, slices.EXPECTED_TEXT)
SLICES: Final[Mapping[tuple[str, bool], Rule]] = {
    (ANNOTATION_SLICE_SIZE, False): SLICE_SIZE,
    (ANNOTATION_SLICE_SIZE, True): SLICE_SIZE_REQUIRED,
    (ANNOTATION_SLICE_TOPOLOGY, False): SLICE_TOPOLOGY,
    (ANNOTATION_SLICE_TOPOLOGY, True): SLICE_TOPOLOGY_REQUIRED,
}
"""By annotation, and whether it is missing, the rule for its value."""

HOLD_FROM: Final = Rule(
    "hold-from",
    (f"metadata.annotations[{ANNOTATION_HOLD_FROM}]",),
    causes.NOT_SUPPORTED,
    "",
    words=(HOLD_FROM_CREATION, "FirstPod"),
)
HOLD_FROM_ROOT: Final = Rule(
    "hold-from-root",
    HOLD_FROM.where,
    _I,
    "must not be Creation on a CompositePodGroup, or on a group with a parent",
)

IMMUTABLE: Final = Rule("immutable", ("spec.*",), _I, causes.IMMUTABLE_TEXT)

WORKLOAD_TOO_LONG: Final = Rule(
    "workload-name-too-long",
    ("metadata.name",),
    _I,
    f"must be no more than {LABEL_VALUE_LENGTH} characters, as pods name the Workload by a label",
)

NAME_TOO_LONG_WARNING: Final = (
    f"metadata.name: must be no more than {LABEL_VALUE_LENGTH} characters for pods to name this "
    "group by a label: use a shorter name, or spec.schedulingGroup (Kubernetes 1.36)"
)

ALL: Final = tuple(value for value in globals().values() if isinstance(value, Rule))
