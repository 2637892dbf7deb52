"""The common fields of templates and groups: each case exists for each of them."""

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
    """A parent of a field: a function that creates an object with it, and its path."""

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


def for_each_holder(
    holders: tuple[Holder, ...],
    sentence: str,
    part: dict[str, Any],
    *faults: Fault,
    server: tuple[Fault, ...] | None = None,
    undecodable: bool = False,
) -> Iterator[Case]:
    """Yield the case for each holder; all paths of faults are below the holder.

    `server` are the causes on a complete server. An `undecodable` number does not fit into 32
    bits: since Kubernetes 1.36 a server rejects it before it knows the field.
    """
    for holder in holders:
        yield Case(
            f"{sentence}, {holder.words}",
            holder.make(**part),
            faults=tuple((f"{holder.path}.{field}", reason) for field, reason in faults),
            server=(("<nil>", INVALID),)
            if undecodable
            else server and tuple((f"{holder.path}.{path}", reason) for path, reason in server),
            server_since=(1, 36) if undecodable else (1, 0),
        )


POLICY, MINIMUM = "schedulingPolicy", "schedulingPolicy.gang.minCount"
GROUP_MINIMUM = "schedulingPolicy.gang.minGroupCount"
TOPOLOGY = "schedulingConstraints.topology"
CLAIMS, CLAIM = "resourceClaims", "resourceClaims[0]"

CASES = (
    # Policy.
    *for_each_holder(EVERYWHERE, "the basic policy", {POLICY: BASIC}),
    *for_each_holder(LEAVES, "a gang of one", {POLICY: gang(1)}),
    *for_each_holder(COMPOSITES, "a gang of one child", {POLICY: group_gang(1)}),
    *for_each_holder(EVERYWHERE, "no policy", {POLICY: None}, (POLICY, REQUIRED)),
    *for_each_holder(EVERYWHERE, "an empty policy", {POLICY: {}}, (POLICY, INVALID)),
    *for_each_holder(LEAVES, "two policies", {POLICY: gang() | BASIC}, (POLICY, INVALID)),
    *for_each_holder(COMPOSITES, "two policies", {POLICY: group_gang() | BASIC}, (POLICY, INVALID)),
    *for_each_holder(
        LEAVES, "a gang without a minimum", {POLICY: {"gang": {}}}, (MINIMUM, REQUIRED)
    ),
    *for_each_holder(
        COMPOSITES, "a gang without a minimum", {POLICY: {"gang": {}}}, (GROUP_MINIMUM, REQUIRED)
    ),
    *for_each_holder(LEAVES, "a minimum of 0", {POLICY: gang(0)}, (MINIMUM, INVALID)),
    *for_each_holder(LEAVES, "a minimum below 0", {POLICY: gang(-1)}, (MINIMUM, INVALID)),
    *for_each_holder(
        COMPOSITES, "a minimum of 0", {POLICY: group_gang(0)}, (GROUP_MINIMUM, INVALID)
    ),
    *for_each_holder(
        LEAVES,
        "a minimum that is a text",
        {POLICY: gang("3")},
        (MINIMUM, TYPE),
    ),
    *for_each_holder(LEAVES, "a minimum that is true", {POLICY: gang(True)}, (MINIMUM, TYPE)),
    *for_each_holder(
        LEAVES,
        "a minimum of 40 bits",
        {POLICY: gang(2**40)},
        (MINIMUM, TYPE),
        undecodable=True,
    ),
    *for_each_holder(
        LEAVES,
        "a gang that is a number",
        {POLICY: {"gang": 3}},
        (f"{POLICY}.gang", TYPE),
        (MINIMUM, REQUIRED),
        server=((f"{POLICY}.gang", TYPE),),
    ),
    *for_each_holder(
        LEAVES,
        "a policy that is a text",
        {POLICY: "gang"},
        (POLICY, TYPE),
        (POLICY, INVALID),
        server=((POLICY, TYPE),),
    ),
    # Topology.
    *for_each_holder(
        EVERYWHERE, "one topology", {"schedulingConstraints": topology("example.com/rack")}
    ),
    *for_each_holder(LEAVES, "no topologies", {"schedulingConstraints": {}}),
    *for_each_holder(LEAVES, "an empty list of topologies", {"schedulingConstraints": topology()}),
    *for_each_holder(
        LEAVES,
        "a preferred topology",
        {"schedulingConstraints": {"topology": [{"key": "rack", "preferred": True}]}},
    ),
    *for_each_holder(
        EVERYWHERE,
        "two topologies",
        {"schedulingConstraints": topology("zone", "rack")},
        (TOPOLOGY, TOO_MANY),
    ),
    *for_each_holder(
        EVERYWHERE,
        "a topology without a key",
        {"schedulingConstraints": {"topology": [{}]}},
        (f"{TOPOLOGY}[0].key", REQUIRED),
    ),
    *for_each_holder(
        LEAVES,
        "a topology of an empty key",
        {"schedulingConstraints": topology("")},
        (f"{TOPOLOGY}[0].key", REQUIRED),
    ),
    *for_each_holder(
        LEAVES,
        "a topology key with a blank",
        {"schedulingConstraints": topology("my rack")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *for_each_holder(
        LEAVES,
        "a topology key of two prefixes",
        {"schedulingConstraints": topology("a/b/c")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *for_each_holder(
        LEAVES,
        "a topology key of a prefix alone",
        {"schedulingConstraints": topology("example.com/")},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    *for_each_holder(
        LEAVES,
        "a topology key longer than labels have",
        {"schedulingConstraints": topology("k" * 64)},
        (f"{TOPOLOGY}[0].key", INVALID),
    ),
    # Disruption mode.
    *for_each_holder(EVERYWHERE, "mode single", {"disruptionMode": SINGLE}),
    *for_each_holder(LEAVES, "mode all", {"disruptionMode": ALL_MODE}),
    *for_each_holder(
        EVERYWHERE, "an empty mode", {"disruptionMode": {}}, ("disruptionMode", INVALID)
    ),
    *for_each_holder(
        LEAVES, "two modes", {"disruptionMode": SINGLE | ALL_MODE}, ("disruptionMode", INVALID)
    ),
    *for_each_holder(
        LEAVES,
        "a mode that is a text",
        {"disruptionMode": "All"},
        ("disruptionMode", TYPE),
        ("disruptionMode", INVALID),
        server=(("disruptionMode", TYPE),),
    ),
    # Priority, in a Workload: it is not resolved there.
    *for_each_holder((TEMPLATE,), "a class that nobody made", {"priorityClassName": "nobody"}),
    *for_each_holder((TEMPLATE,), "the highest priority of users", {"priority": 1_000_000_000}),
    *for_each_holder((TEMPLATE,), "a priority below 0", {"priority": -1}),
    *for_each_holder((TEMPLATE,), "the lowest priority there is", {"priority": -(2**31)}),
    *for_each_holder(
        (TEMPLATE,),
        "a priority below the lowest",
        {"priority": -(2**31) - 1},
        ("priority", TYPE),
        undecodable=True,
    ),
    *for_each_holder(
        (TEMPLATE,), "the highest number of 32 bits", {"priority": 2**31 - 1}, ("priority", INVALID)
    ),
    *for_each_holder(
        (TEMPLATE,),
        "a priority of more than 32 bits",
        {"priority": 2**31},
        ("priority", TYPE),
        undecodable=True,
    ),
    *for_each_holder(
        (TEMPLATE,),
        "a priority above the highest",
        {"priority": 1_000_000_001},
        ("priority", INVALID),
    ),
    *for_each_holder(
        (TEMPLATE,),
        "a priority above the highest with a class of the system's",
        {"priority": 2_000_000_000, "priorityClassName": "system-cluster-critical"},
    ),
    *for_each_holder(
        (TEMPLATE,),
        "a class name that is no DNS name",
        {"priorityClassName": "Very High"},
        ("priorityClassName", INVALID),
    ),
    *for_each_holder(EVERYWHERE, "preemption policy Never", {"preemptionPolicy": "Never"}),
    *for_each_holder(
        EVERYWHERE,
        "an unknown preemption policy",
        {"preemptionPolicy": "Sometimes"},
        ("preemptionPolicy", NOT_SUPPORTED),
    ),
    # Claims.
    *for_each_holder(LEAVES, "four claims", {CLAIMS: [claim(f"c{at}") for at in range(4)]}),
    *for_each_holder(
        LEAVES, "a claim by template", {CLAIMS: [{"name": "c", "resourceClaimTemplateName": "t.x"}]}
    ),
    *for_each_holder(
        LEAVES, "five claims", {CLAIMS: [claim(f"c{at}") for at in range(5)]}, (CLAIMS, TOO_MANY)
    ),
    *for_each_holder(
        LEAVES,
        "one claim name twice",
        {CLAIMS: [claim("c", "x"), claim("c", "y")]},
        (f"{CLAIMS}[1].name", DUPLICATE),
        server=((f"{CLAIMS}[1]", DUPLICATE),),
    ),
    *for_each_holder(
        LEAVES,
        "a claim without a name",
        {CLAIMS: [{"resourceClaimName": "x"}]},
        (f"{CLAIM}.name", REQUIRED),
    ),
    *for_each_holder(
        LEAVES, "a claim name with a dot", {CLAIMS: [claim("a.b")]}, (f"{CLAIM}.name", INVALID)
    ),
    *for_each_holder(LEAVES, "a claim of nothing", {CLAIMS: [{"name": "c"}]}, (CLAIM, INVALID)),
    *for_each_holder(
        LEAVES,
        "a claim of both kinds",
        {CLAIMS: [claim("c") | {"resourceClaimTemplateName": "t"}]},
        (CLAIM, INVALID),
    ),
    *for_each_holder(
        LEAVES,
        "a claim whose reference is no DNS name",
        {CLAIMS: [claim("c", "My Claim")]},
        (f"{CLAIM}.resourceClaimName", INVALID),
    ),
    *for_each_holder(
        LEAVES,
        "a claim of an empty reference",
        {CLAIMS: [claim("c", "")]},
        (f"{CLAIM}.resourceClaimName", INVALID),
    ),
)
