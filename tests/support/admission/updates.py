"""Updates: a stored spec is immutable, except for the minimums."""

from tests.support.admission.case import INVALID, REQUIRED, TYPE, Case, Json, changed
from tests.support.admission.objects import (
    ALL_MODE,
    ASKS,
    ASKS_PATH,
    BASIC,
    DELAY,
    DELAY_PATH,
    REF,
    SINGLE,
    claim,
    composite,
    composite_group,
    flat,
    gang,
    group_gang,
    leaf,
    pod_group,
    topology,
    tree,
    waiting_group,
    with_metadata,
    with_status,
    workload,
)

# As admission completed them.
DONE: Json = {"disruptionMode": SINGLE, "priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
JOB: Json = {"apiGroup": "batch", "kind": "Job", "name": "train"}
POLICY, MINIMUM = "spec.schedulingPolicy", "spec.schedulingPolicy.gang.minCount"
CLAIMS = "status.resourceClaimStatuses"


def group(**spec: object) -> Json:
    return pod_group(**(DONE | spec))


def composed(**spec: object) -> Json:
    return composite_group(**(DONE | spec))


CLAIMING = group(resourceClaims=[claim("gpu")])

CASES: tuple[Case, ...] = (
    changed("a lower minimum", group(), group(schedulingPolicy=gang(1))),
    changed("a higher minimum", group(), group(schedulingPolicy=gang(9))),
    changed("a composite's minimum", composed(), composed(schedulingPolicy=group_gang(3))),
    changed("a minimum of 0", group(), group(schedulingPolicy=gang(0)), (MINIMUM, INVALID)),
    changed(
        "the minimum unset", group(), group(schedulingPolicy={"gang": {}}), (MINIMUM, REQUIRED)
    ),
    changed(
        "a composite's minimum of 0",
        composed(),
        composed(schedulingPolicy=group_gang(0)),
        ("spec.schedulingPolicy.gang.minGroupCount", INVALID),
    ),
    changed("gang to basic", group(), group(schedulingPolicy=BASIC), (POLICY, INVALID)),
    changed("basic to gang", group(schedulingPolicy=BASIC), group(), (POLICY, INVALID)),
    changed(
        "a second policy",
        group(),
        group(schedulingPolicy=gang() | BASIC),
        (POLICY, INVALID),
        (POLICY, INVALID),
    ),
    changed(
        "the policy unset",
        group(),
        group(schedulingPolicy=None),
        (POLICY, INVALID),
        (POLICY, REQUIRED),
    ),
    changed(
        "a gang that becomes a number",
        group(),
        group(schedulingPolicy={"gang": 3}),
        (POLICY, INVALID),
        ("spec.schedulingPolicy.gang", TYPE),
        (MINIMUM, REQUIRED),
        server=(("spec.schedulingPolicy.gang", TYPE),),
    ),
    changed(
        "a topology set later",
        group(),
        group(schedulingConstraints=topology("rack")),
        ("spec.schedulingConstraints", INVALID),
    ),
    changed(
        "a topology unset",
        group(schedulingConstraints=topology("rack")),
        group(),
        ("spec.schedulingConstraints", INVALID),
    ),
    changed(
        "another topology",
        group(schedulingConstraints=topology("rack")),
        group(schedulingConstraints=topology("zone")),
        ("spec.schedulingConstraints", INVALID),
    ),
    changed(
        "a required topology becomes a preferred one",
        group(schedulingConstraints={"topology": [{"key": "rack"}]}),
        group(schedulingConstraints={"topology": [{"key": "rack", "preferred": True}]}),
        ("spec.schedulingConstraints", INVALID),
    ),
    changed(
        "another mode",
        group(),
        group(disruptionMode=ALL_MODE),
        ("spec.disruptionMode", INVALID),
    ),
    changed(
        "the mode unset", group(), group(disruptionMode=None), ("spec.disruptionMode", INVALID)
    ),
    changed(
        "a class set later",
        group(),
        group(priorityClassName="admission-high"),
        ("spec.priorityClassName", INVALID),
    ),
    changed("another priority", group(), group(priority=7), ("spec.priority", INVALID)),
    changed("the priority unset", group(), group(priority=None), ("spec.priority", INVALID)),
    changed(
        "another preemption policy",
        composed(),
        composed(preemptionPolicy="Never"),
        ("spec.preemptionPolicy", INVALID),
    ),
    changed("a template set later", group(), group(workloadRef=REF), ("spec.workloadRef", INVALID)),
    changed(
        "another template",
        composed(),
        composed(workloadRef=REF | {"templateName": "other"}),
        ("spec.workloadRef", INVALID),
    ),
    changed(
        "a parent set later",
        group(workloadRef=REF),
        group(workloadRef=REF, parentCompositePodGroupName="p"),
        ("spec.parentCompositePodGroupName", INVALID),
    ),
    changed(
        "another parent",
        composed(parentCompositePodGroupName="p"),
        composed(parentCompositePodGroupName="q"),
        ("spec.parentCompositePodGroupName", INVALID),
    ),
    changed(
        "the parent unset",
        composed(parentCompositePodGroupName="p"),
        composed(),
        ("spec.parentCompositePodGroupName", INVALID),
    ),
    changed(
        "a claim more",
        group(),
        group(resourceClaims=[claim("gpu")]),
        ("spec.resourceClaims", INVALID),
    ),
    changed(
        "two changes, each told",
        group(),
        group(priority=7, disruptionMode=ALL_MODE),
        ("spec.disruptionMode", INVALID),
        ("spec.priority", INVALID),
    ),
    changed("an annotation", group(), with_metadata(group(), annotations={"a": "b"})),
    changed("the same again", group(), group()),
    changed(
        "a delay that is no duration, and nothing else",
        group(),
        with_metadata(group(), annotations={DELAY: "soon"}),
        warnings=(DELAY_PATH,),
    ),
    changed(
        "a composite's delay that is no duration, and nothing else",
        composed(),
        with_metadata(composed(), annotations={DELAY: "5 m"}),
        warnings=(DELAY_PATH,),
    ),
    changed(
        "a request of no class, and nothing else",
        group(),
        with_metadata(group(), annotations={ASKS: "soon"}),
        warnings=(ASKS_PATH,),
    ),
    changed("a delay that is one", group(), with_metadata(group(), annotations={DELAY: "5m"})),
    changed(
        "a delay that is no duration, with a minimum",
        group(),
        with_metadata(group(schedulingPolicy=gang(1)), annotations={DELAY: "soon"}),
        (DELAY_PATH, INVALID),
    ),
    # A pending group may only be completed by its template's values; here there is no template.
    changed(
        "a policy set later on a group whose template is not there",
        waiting_group(),
        waiting_group(schedulingPolicy=gang()),
        (POLICY, INVALID),
    ),
    changed(
        "a mode set later on a group that waits",
        waiting_group(),
        waiting_group(disruptionMode=ALL_MODE),
        ("spec.disruptionMode", INVALID),
    ),
    # Workloads.
    changed("the minimum of a template", flat(), flat(leaf(schedulingPolicy=gang(5)))),
    changed(
        "a minimum in a tree",
        tree(composite(podGroupTemplates=[leaf()])),
        tree(
            composite(
                schedulingPolicy=group_gang(2), podGroupTemplates=[leaf(schedulingPolicy=gang(9))]
            )
        ),
    ),
    changed(
        "a minimum of 0 in a template",
        flat(),
        flat(leaf(schedulingPolicy=gang(0))),
        ("spec.podGroupTemplates[0].schedulingPolicy.gang.minCount", INVALID),
    ),
    changed(
        "a template more", flat(), flat(leaf(), leaf("more")), ("spec.podGroupTemplates", INVALID)
    ),
    changed(
        "a template less",
        flat(leaf(), leaf("more")),
        flat(),
        ("spec.podGroupTemplates", INVALID),
    ),
    changed("a template renamed", flat(), flat(leaf("other")), ("spec.podGroupTemplates", INVALID)),
    changed(
        "a template's topology set later",
        flat(),
        flat(leaf(schedulingConstraints=topology("rack"))),
        ("spec.podGroupTemplates", INVALID),
    ),
    changed(
        "a list of templates becomes a tree",
        flat(),
        tree(composite(podGroupTemplates=[leaf()])),
        ("spec.compositePodGroupTemplates", INVALID),
        ("spec.podGroupTemplates", INVALID),
    ),
    changed("an owner set later", flat(), flat(controllerRef=JOB), ("spec.controllerRef", INVALID)),
    changed("the owner unset", flat(controllerRef=JOB), flat(), ("spec.controllerRef", INVALID)),
    changed(
        "another owner",
        flat(controllerRef=JOB),
        flat(controllerRef=JOB | {"name": "other"}),
        ("spec.controllerRef", INVALID),
    ),
    changed(
        "the spec taken away",
        flat(),
        workload(),
        ("spec.podGroupTemplates", INVALID),
        ("spec", REQUIRED),
    ),
    # The status.
    changed(
        "the claim of an entry",
        CLAIMING,
        with_status(
            CLAIMING, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "gpu-1"}]
        ),
        subresource="status",
    ),
    changed(
        "an entry that needed no claim",
        CLAIMING,
        with_status(CLAIMING, resourceClaimStatuses=[{"name": "gpu"}]),
        subresource="status",
    ),
    changed(
        "the claim of no entry",
        CLAIMING,
        with_status(CLAIMING, resourceClaimStatuses=[{"name": "tpu"}]),
        (f"{CLAIMS}[0].name", INVALID),
        subresource="status",
    ),
    changed(
        "a claim whose name is no DNS name",
        CLAIMING,
        with_status(CLAIMING, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "G U"}]),
        (f"{CLAIMS}[0].resourceClaimName", INVALID),
        subresource="status",
    ),
    changed(
        "counts in the status",
        group(),
        with_status(group(), members=3, scheduledPods=2),
        subresource="status",
    ),
)
