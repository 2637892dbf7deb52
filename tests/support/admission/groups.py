"""PodGroups and CompositePodGroups: templates, parents, names, and defaulted fields."""

from api.constants import FINALIZER_COMPOSITE, FINALIZER_POD_GROUP
from tests.support.admission.case import (
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TYPE,
    Json,
    accepted,
)
from tests.support.admission.case import refused as no
from tests.support.admission.objects import (
    ALL_MODE,
    ASKS,
    ASKS_PATH,
    DELAY,
    DELAY_PATH,
    REF,
    SINGLE,
    START_PATH,
    START_TIMEOUT,
    composite_group,
    gang,
    pod_group,
    waiting_group,
    with_metadata,
)

WORKLOAD, TEMPLATE = "spec.workloadRef.workloadName", "spec.workloadRef.templateName"
PARENT = "spec.parentCompositePodGroupName"


FULL = "check-capacity.autoscaling.x-k8s.io"


def asking(obj: Json, asks: str) -> Json:
    return with_metadata(obj, annotations={ASKS: asks})


def started(obj: Json, within: str) -> Json:
    return with_metadata(obj, annotations={START_TIMEOUT: within})


def delayed(obj: Json, delay: str) -> Json:
    return with_metadata(obj, annotations={DELAY: delay})


CASES = (
    accepted(
        "a gang on its own is completed",
        pod_group(),
        metadata__finalizers=[FINALIZER_POD_GROUP],
        spec__disruptionMode=SINGLE,
        spec__schedulingPolicy=gang(),
    ),
    accepted(
        "a composite is completed",
        composite_group(),
        metadata__finalizers=[FINALIZER_COMPOSITE],
        spec__disruptionMode=SINGLE,
    ),
    accepted(
        "the finalizer is added to those there are",
        with_metadata(pod_group(), finalizers=["example.com/mine"]),
        metadata__finalizers=["example.com/mine", FINALIZER_POD_GROUP],
    ),
    accepted(
        "a mode that is given stays",
        pod_group(disruptionMode=ALL_MODE),
        spec__disruptionMode=ALL_MODE,
    ),
    accepted(
        "a PodGroup without a policy waits for its template, without mode or priority",
        waiting_group(),
        metadata__finalizers=[FINALIZER_POD_GROUP],
        spec__disruptionMode=None,
        spec__priority=None,
        spec__schedulingPolicy=None,
    ),
    accepted("a request for capacity", asking(pod_group(), "check-capacity")),
    accepted("one at once or not", asking(composite_group(), "best-effort-atomic-scale-up")),
    no("a request of no class", asking(pod_group(), "soon"), (ASKS_PATH, NOT_SUPPORTED)),
    no(
        "a request of a class's full name",
        asking(composite_group(), FULL),
        (ASKS_PATH, NOT_SUPPORTED),
    ),
    accepted("a delay before anybody is evicted", delayed(pod_group(), "90s")),
    accepted("a delay of nothing", delayed(composite_group(), "0s")),
    no("no time to start", started(pod_group(), "0s"), (START_PATH, INVALID)),
    no("a time to start of no unit", started(composite_group(), "10"), (START_PATH, INVALID)),
    accepted("a time to start", started(pod_group(), "10m")),
    no("a delay without a unit", delayed(pod_group(), "90"), (DELAY_PATH, INVALID)),
    no("a delay of no number", delayed(pod_group(), "soon"), (DELAY_PATH, INVALID)),
    no("an empty delay", delayed(composite_group(), ""), (DELAY_PATH, INVALID)),
    no(
        "a delay that is no duration beside another fault",
        delayed(pod_group(schedulingPolicy=gang(0)), "-5m"),
        ("spec.schedulingPolicy.gang.minCount", INVALID),
        (DELAY_PATH, INVALID),
    ),
    accepted("a group of a template", pod_group(workloadRef=REF)),
    accepted(
        "a group with a parent",
        pod_group(workloadRef=REF, parentCompositePodGroupName="parent"),
    ),
    accepted(
        "a PodGroup named like its parent, which is of another kind",
        pod_group("same", workloadRef=REF, parentCompositePodGroupName="same"),
    ),
    accepted(
        "a composite with a parent", composite_group(parentCompositePodGroupName="the.parent")
    ),
    accepted(
        "a Workload's name may have dots",
        pod_group(workloadRef={"workloadName": "a.b", "templateName": "t"}),
    ),
    no(
        "neither a policy nor a template",
        pod_group(schedulingPolicy=None),
        ("spec.schedulingPolicy", REQUIRED),
    ),
    no(
        "a policy that is there but empty beside a template",
        waiting_group(schedulingPolicy={}),
        ("spec.schedulingPolicy", INVALID),
    ),
    no(
        "a parent without a template",
        pod_group(parentCompositePodGroupName="parent"),
        ("spec.workloadRef", REQUIRED),
    ),
    no(
        "a composite without a template",
        composite_group(workloadRef=None),
        ("spec.workloadRef", REQUIRED),
    ),
    no(
        "a composite of nothing",
        composite_group(workloadRef=None, schedulingPolicy=None),
        ("spec.workloadRef", REQUIRED),
        ("spec.schedulingPolicy", REQUIRED),
    ),
    no(
        "a composite with the minimum of a PodGroup",
        composite_group(schedulingPolicy=gang()),
        ("spec.schedulingPolicy.gang.minGroupCount", REQUIRED),
    ),
    no(
        "a composite that is its own parent",
        composite_group("self", parentCompositePodGroupName="self"),
        (PARENT, INVALID),
    ),
    no(
        "a parent of an empty name",
        pod_group(workloadRef=REF, parentCompositePodGroupName=""),
        (PARENT, INVALID),
    ),
    no(
        "a parent whose name is no DNS name",
        composite_group(parentCompositePodGroupName="The_Parent"),
        (PARENT, INVALID),
    ),
    no(
        "a parent that is a number",
        pod_group(workloadRef=REF, parentCompositePodGroupName=7),
        (PARENT, TYPE),
        (PARENT, INVALID),
        server=((PARENT, TYPE),),
    ),
    no(
        "an empty reference to a template",
        pod_group(workloadRef={}),
        (WORKLOAD, REQUIRED),
        (TEMPLATE, REQUIRED),
    ),
    no(
        "a template without its Workload",
        pod_group(workloadRef={"templateName": "t"}),
        (WORKLOAD, REQUIRED),
    ),
    no(
        "a Workload without a template",
        composite_group(workloadRef={"workloadName": "w"}),
        (TEMPLATE, REQUIRED),
    ),
    no(
        "a Workload whose name is no DNS name",
        pod_group(workloadRef={"workloadName": "W", "templateName": "t"}),
        (WORKLOAD, INVALID),
    ),
    no(
        "a template whose name is no DNS label",
        pod_group(workloadRef={"workloadName": "w", "templateName": "a.b"}),
        (TEMPLATE, INVALID),
    ),
    no(
        "a reference that is a text",
        pod_group(workloadRef="w/t"),
        ("spec.workloadRef", TYPE),
        (WORKLOAD, REQUIRED),
        (TEMPLATE, REQUIRED),
        server=(("spec.workloadRef", TYPE),),
    ),
    no(
        "faults of several rules of a group, all in one answer",
        pod_group(
            schedulingPolicy=gang(0),
            schedulingConstraints={"topology": [{"key": "a b"}]},
            parentCompositePodGroupName="Bad_Name",
        ),
        (PARENT, INVALID),
        ("spec.workloadRef", REQUIRED),
        ("spec.schedulingPolicy.gang.minCount", INVALID),
        ("spec.schedulingConstraints.topology[0].key", INVALID),
    ),
    accepted("a PodGroup name of 63 characters", pod_group("x" * 63)),
    accepted(
        "a PodGroup name of 64 characters, which no label can hold, is worth a warning",
        pod_group("x" * 64),
        warnings=("metadata.name: must be no more than 63 characters",),
    ),
    accepted("a composite's name of 64 characters is no matter", composite_group("x" * 64)),
)
