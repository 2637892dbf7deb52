"""Objects of older versions: validated as v1alpha3, with the fault paths of that version."""

from tests.support.admission.case import INVALID, REQUIRED, Case, accepted
from tests.support.admission.case import refused as no
from tests.support.admission.objects import BASIC, gang, in_version, leaf

TEMPLATES = "spec.podGroupTemplates"


def old_workload(*groups: object, **spec: object) -> dict[str, object]:
    return in_version("v1alpha1", "Workload", podGroups=list(groups), **spec)


def old_group(**spec: object) -> dict[str, object]:
    return in_version("v1alpha2", "PodGroup", workloadRef={"name": "w"}, **spec)


CASES: tuple[Case, ...] = (
    accepted("v1alpha1: a Workload", old_workload({"name": "a", "policy": gang()})),
    accepted("v1alpha1: a basic group", old_workload({"name": "a", "policy": BASIC})),
    no("v1alpha1: a Workload without groups", old_workload(), ("spec", REQUIRED)),
    no(
        "v1alpha1: a group without a policy",
        old_workload({"name": "a"}),
        (f"{TEMPLATES}[0].schedulingPolicy", REQUIRED),
    ),
    no(
        "v1alpha1: a gang of none",
        old_workload({"name": "a", "policy": gang(0)}),
        (f"{TEMPLATES}[0].schedulingPolicy.gang.minCount", INVALID),
    ),
    no(
        "v1alpha1: a group name with a dot",
        old_workload({"name": "a.b", "policy": gang()}),
        (f"{TEMPLATES}[0].name", INVALID),
    ),
    accepted(
        "v1alpha2: a Workload",
        in_version("v1alpha2", "Workload", podGroupTemplates=[leaf(priorityClassName="high")]),
    ),
    no(
        "v1alpha2: a Workload without templates",
        in_version("v1alpha2", "Workload", controllerRef={"kind": "Job", "name": "j"}),
        ("spec", REQUIRED),
    ),
    accepted("v1alpha2: a PodGroup", old_group(podGroupTemplateName="t")),
    accepted(
        "v1alpha2: a PodGroup with a reference to its template",
        old_group(podGroupTemplateRef={"name": "t"}),
    ),
    accepted(
        "v1alpha2: a PodGroup that says its template twice alike",
        old_group(podGroupTemplateName="t", podGroupTemplateRef={"name": "t"}),
    ),
    no(
        "v1alpha2: a PodGroup that says two templates",
        old_group(podGroupTemplateName="t", podGroupTemplateRef={"name": "u"}),
        ("spec.podGroupTemplateRef.name", INVALID),
    ),
    no(
        "v1alpha2: a PodGroup without a template",
        old_group(),
        ("spec.workloadRef.templateName", REQUIRED),
    ),
    no(
        "v1alpha2: a PodGroup of nothing",
        in_version("v1alpha2", "PodGroup"),
        ("spec.schedulingPolicy", REQUIRED),
    ),
)
