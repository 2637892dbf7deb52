"""Trees of templates: depth, children, and a parent's requirements for them."""

from tests.support.admission.case import INVALID, REQUIRED, accepted
from tests.support.admission.case import refused as no
from tests.support.admission.objects import (
    ALL_MODE,
    SINGLE,
    chain,
    composite,
    flat,
    gang,
    leaf,
    tree,
)

ROOT = "spec.compositePodGroupTemplates[0]"
BELOW = ".compositePodGroupTemplates[0]"
LEAF = ".podGroupTemplates[0]"
FOURTH = composite("fourth", podGroupTemplates=[leaf("fifth", unheardOf={"of": "a field"})])

CASES = (
    accepted("a tree of two levels", chain(1)),
    accepted("a tree of four levels", chain(3)),
    no("a composite on the fourth level", chain(4), (ROOT + BELOW * 3, INVALID)),
    no(
        "a composite on the fourth level beside valid gangs",
        tree(
            composite(
                "first",
                podGroupTemplates=[leaf("beside-second")],
                compositePodGroupTemplates=[
                    composite(
                        "second",
                        podGroupTemplates=[leaf("beside-third")],
                        compositePodGroupTemplates=[
                            composite(
                                "third",
                                podGroupTemplates=[leaf("beside-fourth")],
                                compositePodGroupTemplates=[FOURTH],
                            )
                        ],
                    )
                ],
            )
        ),
        (ROOT + BELOW * 3, INVALID),
    ),
    no("a tree of six levels, told once", chain(6), (ROOT + BELOW * 3, INVALID)),
    no(
        "an empty composite on the fourth level",
        tree(
            composite(
                "a",
                compositePodGroupTemplates=[
                    composite(
                        "b",
                        compositePodGroupTemplates=[
                            composite("c", compositePodGroupTemplates=[composite("d")])
                        ],
                    )
                ],
            )
        ),
        (ROOT + BELOW * 3, INVALID),
    ),
    no(
        "a fault in a gang on the fourth level",
        chain(3, leaf("deep", schedulingPolicy=gang(0))),
        (f"{ROOT}{BELOW * 2}{LEAF}.schedulingPolicy.gang.minCount", INVALID),
    ),
    no("a composite template without children", tree(composite()), (ROOT, INVALID)),
    no(
        "a composite template of two empty lists",
        tree(composite(podGroupTemplates=[], compositePodGroupTemplates=[])),
        (ROOT, INVALID),
    ),
    no(
        "an empty composite template among its siblings",
        tree(composite("a", podGroupTemplates=[leaf()]), composite("b")),
        ("spec.compositePodGroupTemplates[1]", INVALID),
    ),
    # Mode `all` covers everything below.
    accepted(
        "mode single over a child without a mode",
        tree(composite(disruptionMode=SINGLE, podGroupTemplates=[leaf()])),
    ),
    accepted(
        "mode single over a child of mode all",
        tree(composite(disruptionMode=SINGLE, podGroupTemplates=[leaf(disruptionMode=ALL_MODE)])),
    ),
    accepted(
        "mode all over children of mode all",
        tree(
            composite(
                disruptionMode=ALL_MODE,
                podGroupTemplates=[leaf(disruptionMode=ALL_MODE)],
                compositePodGroupTemplates=[
                    composite(
                        "inner",
                        disruptionMode=ALL_MODE,
                        podGroupTemplates=[leaf("deep", disruptionMode=ALL_MODE)],
                    )
                ],
            )
        ),
    ),
    no(
        "mode all over a child of mode single",
        tree(composite(disruptionMode=ALL_MODE, podGroupTemplates=[leaf(disruptionMode=SINGLE)])),
        (f"{ROOT}{LEAF}.disruptionMode", INVALID),
    ),
    no(
        "mode all over a child without a mode, which is single by default",
        tree(composite(disruptionMode=ALL_MODE, podGroupTemplates=[leaf()])),
        (f"{ROOT}{LEAF}.disruptionMode", INVALID),
    ),
    no(
        "mode all over a composite of mode single",
        tree(
            composite(
                disruptionMode=ALL_MODE,
                compositePodGroupTemplates=[
                    composite("inner", disruptionMode=SINGLE, podGroupTemplates=[leaf()])
                ],
            )
        ),
        (f"{ROOT}{BELOW}.disruptionMode", INVALID),
    ),
    no(
        "mode all over a composite without a mode, told once and not for its children",
        tree(
            composite(
                disruptionMode=ALL_MODE,
                compositePodGroupTemplates=[composite("inner", podGroupTemplates=[leaf()])],
            )
        ),
        (f"{ROOT}{BELOW}.disruptionMode", INVALID),
    ),
    # One priority.
    accepted(
        "one class and one number all over a tree",
        tree(
            composite(
                priorityClassName="high",
                priority=7,
                podGroupTemplates=[leaf(priorityClassName="high", priority=7)],
            )
        ),
    ),
    accepted(
        "an empty class name is like none",
        flat(leaf("a", priorityClassName=""), leaf("b")),
    ),
    no(
        "two classes among gangs",
        flat(leaf("a", priorityClassName="high"), leaf("b", priorityClassName="low")),
        ("spec.podGroupTemplates[1].priorityClassName", INVALID),
    ),
    no(
        "a class on one of two gangs",
        flat(leaf("a"), leaf("b", priorityClassName="low")),
        ("spec.podGroupTemplates[1].priorityClassName", INVALID),
    ),
    no(
        "two numbers among gangs",
        flat(leaf("a", priority=1), leaf("b", priority=2)),
        ("spec.podGroupTemplates[1].priority", INVALID),
    ),
    no(
        "a number on one of two gangs",
        flat(leaf("a", priority=0), leaf("b")),
        ("spec.podGroupTemplates[1].priority", INVALID),
    ),
    no(
        "a class that differs deep in a tree",
        tree(
            composite(
                "a",
                priorityClassName="high",
                compositePodGroupTemplates=[
                    composite("b", priorityClassName="high", podGroupTemplates=[leaf()])
                ],
            )
        ),
        (f"{ROOT}{BELOW}{LEAF}.priorityClassName", INVALID),
    ),
    no(
        "a class that differs between trees",
        tree(
            composite("a", podGroupTemplates=[leaf("in-a")]),
            composite(
                "b",
                priorityClassName="low",
                podGroupTemplates=[leaf("in-b", priorityClassName="low")],
            ),
        ),
        ("spec.compositePodGroupTemplates[1].priorityClassName", INVALID),
        ("spec.compositePodGroupTemplates[1].podGroupTemplates[0].priorityClassName", INVALID),
    ),
    no(
        "a composite template with the minimum of a gang",
        tree(composite(schedulingPolicy=gang(), podGroupTemplates=[leaf()])),
        (f"{ROOT}.schedulingPolicy.gang.minGroupCount", REQUIRED),
    ),
)
