"""Workloads: lists of templates, names, and the owner."""

from kube.client.meta import Json
from tests.support.admission.case import DUPLICATE, INVALID, REQUIRED, TOO_MANY, TYPE, accepted
from tests.support.admission.case import refused as no
from tests.support.admission.objects import composite, flat, leaf, tree, workload

LEAVES, LEAF = "spec.podGroupTemplates", "spec.podGroupTemplates[0]"
ROOTS, ROOT = "spec.compositePodGroupTemplates", "spec.compositePodGroupTemplates[0]"
OWNER = "spec.controllerRef"
MANY = [leaf(f"leaf-{number}") for number in range(9)]
CHILD = [leaf("child")]


def named(name: str) -> Json:
    """Return a Workload of this name."""
    made = flat()
    return made | {"metadata": made["metadata"] | {"name": name}}


CASES = (
    accepted("a Workload of one gang", flat()),
    accepted("a Workload of eight gangs", flat(*MANY[:8])),
    accepted("a Workload of one tree", tree(composite(podGroupTemplates=CHILD))),
    accepted(
        "a Workload of two trees",
        tree(
            composite("a", podGroupTemplates=[leaf("in-a")]),
            composite("b", podGroupTemplates=[leaf("in-b")]),
        ),
    ),
    accepted("a Workload whose name fits a label", named("w" * 63)),
    no(
        "a Workload whose name fits no label: its pods could not name it",
        named("w" * 64),
        ("metadata.name", INVALID),
    ),
    no("a Workload without templates", workload(), ("spec", REQUIRED)),
    no(
        "a Workload of an empty list of templates",
        workload(podGroupTemplates=[]),
        ("spec", REQUIRED),
    ),
    no(
        "a Workload of two empty lists of templates",
        workload(podGroupTemplates=[], compositePodGroupTemplates=[]),
        ("spec", REQUIRED),
    ),
    no(
        "a Workload without a spec",
        {key: value for key, value in workload().items() if key != "spec"},
        ("spec", REQUIRED),
    ),
    no(
        "a Workload of both kinds of templates",
        tree(composite(podGroupTemplates=CHILD), podGroupTemplates=[leaf()]),
        ("spec", INVALID),
    ),
    no("a Workload of nine gangs", flat(*MANY), (LEAVES, TOO_MANY)),
    no(
        "a Workload of nine trees",
        tree(*(composite(f"c{at}", podGroupTemplates=[leaf(f"l{at}")]) for at in range(9))),
        (ROOTS, TOO_MANY),
    ),
    no(
        "a composite template of nine child gangs",
        tree(composite(podGroupTemplates=MANY)),
        (f"{ROOT}.podGroupTemplates", TOO_MANY),
    ),
    no(
        "a composite template of nine child composites",
        tree(
            composite(
                compositePodGroupTemplates=[
                    composite(f"c{at}", podGroupTemplates=[leaf(f"l{at}")]) for at in range(9)
                ]
            )
        ),
        (f"{ROOT}.compositePodGroupTemplates", TOO_MANY),
    ),
    accepted(
        "a composite template of eight gangs and a composite of eight more",
        tree(
            composite(
                podGroupTemplates=MANY[:8],
                compositePodGroupTemplates=[
                    composite("more", podGroupTemplates=[leaf(f"m{at}") for at in range(8)])
                ],
            )
        ),
    ),
    # Names.
    no("a template without a name", flat(leaf(None)), (f"{LEAF}.name", REQUIRED)),
    no("a template of an empty name", flat(leaf("")), (f"{LEAF}.name", REQUIRED)),
    no(
        "a composite template without a name",
        tree(composite(None, podGroupTemplates=CHILD)),
        (f"{ROOT}.name", REQUIRED),
    ),
    accepted("a template name of 63 characters", flat(leaf("x" * 63))),
    no("a template name of 64 characters", flat(leaf("x" * 64)), (f"{LEAF}.name", INVALID)),
    no("a template name with a dot", flat(leaf("a.b")), (f"{LEAF}.name", INVALID)),
    no("a template name with a capital", flat(leaf("Leaf")), (f"{LEAF}.name", INVALID)),
    no("a template name that begins with a dash", flat(leaf("-a")), (f"{LEAF}.name", INVALID)),
    no("a template name that ends with a dash", flat(leaf("a-")), (f"{LEAF}.name", INVALID)),
    no("a template name with a line break", flat(leaf("a\n")), (f"{LEAF}.name", INVALID)),
    no("a template name beyond ASCII", flat(leaf("größe")), (f"{LEAF}.name", INVALID)),
    accepted("a template name of digits alone", flat(leaf("0"))),
    no(
        "one name twice in a list",
        flat(leaf("same"), leaf("same")),
        (f"{LEAVES}[1].name", DUPLICATE),
        server=((f"{LEAVES}[1]", DUPLICATE),),
    ),
    no(
        "a child named like its parent",
        tree(composite("same", podGroupTemplates=[leaf("same")])),
        (f"{ROOT}.podGroupTemplates[0].name", DUPLICATE),
    ),
    no(
        "cousins of one name",
        tree(
            composite("a", podGroupTemplates=[leaf("same")]),
            composite("b", podGroupTemplates=[leaf("same")]),
        ),
        (f"{ROOTS}[1].podGroupTemplates[0].name", DUPLICATE),
    ),
    # The owner.
    accepted(
        "an owner of a named group",
        flat(controllerRef={"apiGroup": "batch", "kind": "Job", "name": "train"}),
    ),
    accepted("an owner of the core group", flat(controllerRef={"kind": "Pod", "name": "train"})),
    accepted(
        "an owner of a name that is no DNS name",
        flat(controllerRef={"apiGroup": "example.com", "kind": "Thing", "name": "A_b:c"}),
    ),
    no(
        "an empty owner",
        flat(controllerRef={}),
        (f"{OWNER}.kind", REQUIRED),
        (f"{OWNER}.name", REQUIRED),
    ),
    no("an owner without a name", flat(controllerRef={"kind": "Job"}), (f"{OWNER}.name", REQUIRED)),
    no("an owner without a kind", flat(controllerRef={"name": "a"}), (f"{OWNER}.kind", REQUIRED)),
    no(
        "an owner whose names are no path segments",
        flat(controllerRef={"kind": "a/b", "name": ".."}),
        (f"{OWNER}.kind", INVALID),
        (f"{OWNER}.name", INVALID),
    ),
    no(
        "an owner whose name has a percent sign",
        flat(controllerRef={"kind": "Job", "name": "50%"}),
        (f"{OWNER}.name", INVALID),
    ),
    no(
        "an owner whose group is no DNS name",
        flat(controllerRef={"apiGroup": "Batch", "kind": "Job", "name": "a"}),
        (f"{OWNER}.apiGroup", INVALID),
    ),
    # Wrong types.
    no(
        "a list of templates that is a text",
        workload(podGroupTemplates="many"),
        (LEAVES, TYPE),
        ("spec", REQUIRED),
        server=((LEAVES, TYPE),),
    ),
    no(
        "a template that is a number",
        workload(podGroupTemplates=[3]),
        (LEAF, TYPE),
        (f"{LEAF}.name", REQUIRED),
        (f"{LEAF}.schedulingPolicy", REQUIRED),
        server=((LEAF, INVALID), (LEAF, TYPE)),
    ),
    no(
        "a template name that is a number",
        flat(leaf(7)),
        (f"{LEAF}.name", TYPE),
        (f"{LEAF}.name", REQUIRED),
        server=((f"{LEAF}.name", TYPE),),
    ),
    no(
        "an owner that is a text",
        flat(controllerRef="job"),
        (OWNER, TYPE),
        (f"{OWNER}.kind", REQUIRED),
        (f"{OWNER}.name", REQUIRED),
        server=((OWNER, TYPE),),
    ),
    no(
        "faults of several rules, all in one answer",
        flat(
            leaf("", schedulingPolicy={"gang": {"minCount": 0}}),
            leaf("B", disruptionMode={}),
            controllerRef={"kind": "Job"},
        ),
        (f"{OWNER}.name", REQUIRED),
        (f"{LEAF}.name", REQUIRED),
        (f"{LEAF}.schedulingPolicy.gang.minCount", INVALID),
        (f"{LEAVES}[1].name", INVALID),
        (f"{LEAVES}[1].disruptionMode", INVALID),
    ),
)
