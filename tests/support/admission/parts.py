"""What templates and groups have in common: each case is told of each of them."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.support.admission.case import (
    DUPLICATE,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_MANY,
    TYPE,
    Case,
    Fault,
    Json,
)
from tests.support.admission.objects import (
    ALL_MODE,
    BASIC,
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
)


class Holder(NamedTuple):
    """Where a part can stand: how an object with it is made, and the path to it."""

    words: str
    make: Callable[..., Json]
    path: str


TEMPLATE = Holder("in a template", lambda **part: flat(leaf(**part)), "spec.podGroupTemplates[0]")
GROUP = Holder("in a PodGroup", pod_group, "spec")
COMPOSITE_TEMPLATE = Holder(
    "in a composite template",
    lambda **part: tree(composite(podGroupTemplates=[leaf()], **part)),
    "spec.compositePodGroupTemplates[0]",
)
COMPOSITE = Holder("in a CompositePodGroup", composite_group, "spec")
LEAVES = (TEMPLATE, GROUP)
COMPOSITES = (COMPOSITE_TEMPLATE, COMPOSITE)
EVERYWHERE = LEAVES + COMPOSITES


def told_of(
    holders: tuple[Holder, ...],
    sentence: str,
    part: dict[str, Any],
    *faults: Fault,
    server: tuple[Fault, ...] | None = None,
    whole: tuple[Fault, ...] | None = None,
) -> Iterator[Case]:
    """The case for each holder; paths of faults are below the holder, but for `whole`.

    `server` and `whole` are what a whole server answers instead.
    """
    for holder in holders:
        yield Case(
            f"{sentence}, {holder.words}",
            holder.make(**part),
            faults=tuple((f"{holder.path}.{field}", reason) for field, reason in faults),
            server=whole
            or (server and tuple((f"{holder.path}.{path}", reason) for path, reason in server)),
        )


POLICY, MINIMUM = "schedulingPolicy", "schedulingPolicy.gang.minCount"
GROUP_MINIMUM = "schedulingPolicy.gang.minGroupCount"
TOPOLOGY = "schedulingConstraints.topology"
CLAIMS, CLAIM = "resourceClaims", "resourceClaims[0]"

CASES = (
    # Policy.
    *told_of(EVERYWHERE, "the basic policy", {POLICY: BASIC}),
    *told_of(LEAVES, "a gang of one", {POLICY: gang(1)}),
    *told_of(COMPOSITES, "a gang of one child", {POLICY: group_gang(1)}),
    *told_of(EVERYWHERE, "no policy", {POLICY: None}, (POLICY, REQUIRED)),
    *told_of(EVERYWHERE, "an empty policy", {POLICY: {}}, (POLICY, INVALID)),
    *told_of(LEAVES, "two policies", {POLICY: gang() | BASIC}, (POLICY, INVALID)),
    *told_of(COMPOSITES, "two policies", {POLICY: group_gang() | BASIC}, (POLICY, INVALID)),
    *told_of(LEAVES, "a gang without a minimum", {POLICY: {"gang": {}}}, (MINIMUM, REQUIRED)),
    *told_of(
        COMPOSITES, "a gang without a minimum", {POLICY: {"gang": {}}}, (GROUP_MINIMUM, REQUIRED)
    ),
    *told_of(LEAVES, "a minimum of 0", {POLICY: gang(0)}, (MINIMUM, INVALID)),
    *told_of(LEAVES, "a minimum below 0", {POLICY: gang(-1)}, (MINIMUM, INVALID)),
    *told_of(COMPOSITES, "a minimum of 0", {POLICY: group_gang(0)}, (GROUP_MINIMUM, INVALID)),
    *told_of(
        LEAVES,
        "a minimum that is a text",
        {POLICY: gang("3")},
        (MINIMUM, TYPE),
    ),
    *told_of(LEAVES, "a minimum that is true", {POLICY: gang(True)}, (MINIMUM, TYPE)),
    *told_of(
        LEAVES,
        "a minimum of 40 bits",
        {POLICY: gang(2**40)},
        (MINIMUM, TYPE),
        whole=(("<nil>", INVALID),),
    ),
    *told_of(
        LEAVES,
        "a gang that is a number",
        {POLICY: {"gang": 3}},
        (f"{POLICY}.gang", TYPE),
        (MINIMUM, REQUIRED),
        server=((f"{POLICY}.gang", TYPE),),
    ),
    *told_of(
        LEAVES,
        "a policy that is a text",
        {POLICY: "gang"},
        (POLICY, TYPE),
        (POLICY, INVALID),
        server=((POLICY, TYPE),),
    ),
    # Topology.
    *told_of(EVERYWHERE, "one topology", {"schedulingConstraints": topology("example.com/rack")}),
    *told_of(LEAVES, "no topologies", {"schedulingConstraints": {}}),
    *told_of(LEAVES, "an empty list of topologies", {"schedulingConstraints": topology()}),
    *told_of(
        LEAVES,
        "a preferred topology",
        {"schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]}},
    ),
    *told_of(
        EVERYWHERE,
        "two topologies",
        {"schedulingConstraints": topology("zone", "rack")},
        (TOPOLOGY, TOO_MANY),
    ),
    *told_of(
        EVERYWHERE,
        "a topology without a key",
        {"schedulingConstraints": {"topology": [{}]}},
        (f"{TOPOLOGY}[0].key", REQUIRED),
    ),
    *told_of(
        LEAVES,
        "a topology of an empty key",
        {"schedulingConstraints": topology("")},
        (f"{TOPOLOGY}[0].key", REQUIRED),
    ),
    *told_of(
        LEAVES,
        "a topology key with a blank",
        {"schedulingConstraints": topology("my rack")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *told_of(
        LEAVES,
        "a topology key of two prefixes",
        {"schedulingConstraints": topology("a/b/c")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *told_of(
        LEAVES,
        "a topology key of a prefix alone",
        {"schedulingConstraints": topology("example.com/")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *told_of(
        LEAVES,
        "a topology key longer than labels have",
        {"schedulingConstraints": topology("k" * 64)},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    # Disruption mode.
    *told_of(EVERYWHERE, "mode single", {"disruptionMode": SINGLE}),
    *told_of(LEAVES, "mode all", {"disruptionMode": ALL_MODE}),
    *told_of(EVERYWHERE, "an empty mode", {"disruptionMode": {}}, ("disruptionMode", INVALID)),
    *told_of(
        LEAVES, "two modes", {"disruptionMode": SINGLE | ALL_MODE}, ("disruptionMode", INVALID)
    ),
    *told_of(
        LEAVES,
        "a mode that is a text",
        {"disruptionMode": "All"},
        ("disruptionMode", TYPE),
        ("disruptionMode", INVALID),
        server=(("disruptionMode", TYPE),),
    ),
    # Priority, in a Workload: it is not resolved there.
    *told_of((TEMPLATE,), "a class that nobody made", {"priorityClassName": "nobody"}),
    *told_of((TEMPLATE,), "the highest priority of users", {"priority": 1_000_000_000}),
    *told_of((TEMPLATE,), "a priority below 0", {"priority": -1}),
    *told_of(
        (TEMPLATE,),
        "a priority above the highest",
        {"priority": 1_000_000_001},
        ("priority", INVALID),
    ),
    *told_of(
        (TEMPLATE,),
        "a priority above the highest with a class of the system's",
        {"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"},
    ),
    *told_of(
        (TEMPLATE,),
        "a class name that is no DNS name",
        {"priorityClassName": "Very High"},
        ("priorityClassName", INVALID),
    ),
    *told_of(EVERYWHERE, "preemption policy Never", {"preemptionPolicy": "Never"}),
    *told_of(
        EVERYWHERE,
        "an unknown preemption policy",
        {"preemptionPolicy": "Sometimes"},
        ("preemptionPolicy", NOT_SUPPORTED),
    ),
    # Claims.
    *told_of(LEAVES, "four claims", {CLAIMS: [claim(f"c{at}") for at in range(4)]}),
    *told_of(
        LEAVES, "a claim by template", {CLAIMS: [{"name": "c", "resourceClaimTemplateName": "t.x"}]}
    ),
    *told_of(
        LEAVES, "five claims", {CLAIMS: [claim(f"c{at}") for at in range(5)]}, (CLAIMS, TOO_MANY)
    ),
    *told_of(
        LEAVES,
        "one claim name twice",
        {CLAIMS: [claim("c", "x"), claim("c", "y")]},
        (f"{CLAIMS}[1].name", DUPLICATE),
        server=((f"{CLAIMS}[1]", DUPLICATE),),
    ),
    *told_of(
        LEAVES,
        "a claim without a name",
        {CLAIMS: [{"resourceClaimName": "x"}]},
        (f"{CLAIM}.name", REQUIRED),
    ),
    *told_of(
        LEAVES, "a claim name with a dot", {CLAIMS: [claim("a.b")]}, (f"{CLAIM}.name", INVALID)
    ),
    *told_of(LEAVES, "a claim of nothing", {CLAIMS: [{"name": "c"}]}, (CLAIM, INVALID)),
    *told_of(
        LEAVES,
        "a claim of both kinds",
        {CLAIMS: [claim("c") | {"resourceClaimTemplateName": "t"}]},
        (CLAIM, INVALID),
    ),
    *told_of(
        LEAVES,
        "a claim whose reference is no DNS name",
        {CLAIMS: [claim("c", "My Claim")]},
        (f"{CLAIM}.resourceClaimName", INVALID),
    ),
    *told_of(
        LEAVES,
        "a claim of an empty reference",
        {CLAIMS: [claim("c", "")]},
        (f"{CLAIM}.resourceClaimName", INVALID),
    ),
)
