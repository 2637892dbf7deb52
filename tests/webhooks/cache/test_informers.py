"""The webhook's caches of the cluster follow every change."""

from typing import Any

import msgspec
import pytest

from api.constants import COMPOSITE_POD_GROUP, JOB, POD_GROUP, WORKLOAD
from api.names import implicit_pod_group
from api.priority import PriorityClass
from tests.support.memory_api import MemoryApi
from tests.support.owners import made_for
from webhooks.cache.informers import (
    ClusterInformers,
    GroupObject,
    PriorityClassObject,
    decode_class,
    decode_group,
)

GONE = "2026-01-01T00:00:00Z"
ENTRIES = [
    {"name": "a", "resourceClaimTemplateName": "t"},
    {"name": "b", "resourceClaimName": "c"},
]


@pytest.fixture
def informers() -> ClusterInformers:
    return ClusterInformers(MemoryApi())


def group(name: str, spec: Any = None, version: str = "1", **meta: Any) -> GroupObject:
    metadata = {"name": name, "namespace": "team", "resourceVersion": version, **meta}
    return decode_group(msgspec.json.encode({"metadata": metadata, "spec": spec or {}}))


def priority_class(name: str, version: str, **fields: Any) -> PriorityClassObject:
    metadata = {"name": name, "resourceVersion": version}
    return decode_class(msgspec.json.encode({"metadata": metadata, **fields}))


def test_priority_classes_come_change_and_go(informers: ClusterInformers) -> None:
    classes = informers._classes

    classes.upsert(priority_class("high", "1", value=10, preemptionPolicy="Never"))
    classes.upsert(priority_class("low", "1", value=1, globalDefault=True))
    both = informers.priority_classes()
    classes.upsert(priority_class("high", "2", value=20))
    classes.delete(("", "low"))
    classes.delete(("", "never-there"))

    assert both == [
        PriorityClass("high", 10, preemption_policy="Never"),
        PriorityClass("low", 1, global_default=True),
    ]
    assert informers.priority_classes() == [PriorityClass("high", 20)]


def test_a_group_counts_as_deleting_until_it_is_gone_or_its_name_is_used_again(
    informers: ClusterInformers,
) -> None:
    groups, versions = informers._pod_groups, iter("123456789")

    def seen(deletion: str | None) -> bool:
        groups.upsert(group("root", version=next(versions), deletionTimestamp=deletion))
        return informers.pod_group_is_deleting("team", "root", ())

    assert not seen(None)
    assert seen(GONE)
    groups.delete(("team", "root"))
    assert not informers.pod_group_is_deleting("team", "root", ())
    assert seen(GONE)
    assert not seen(None)
    assert not informers.pod_group_is_deleting("other", "root", ())


@pytest.mark.parametrize("kind", [POD_GROUP.kind, COMPOSITE_POD_GROUP.kind])
def test_a_group_is_taken_unless_it_was_made_for_the_same_owner(
    informers: ClusterInformers, kind: str
) -> None:
    groups = informers._pod_groups if kind == POD_GROUP.kind else informers._composites
    owned = made_for(JOB, "sweep", "u")
    # The garbage collector removes the reference to a deleted owner before it deletes the group.
    groups.upsert(group("mine", **owned))
    groups.upsert(group("other", **made_for(JOB, "train", "u")))
    groups.upsert(group("free"))
    groups.upsert(group("copied", annotations=owned["annotations"]))
    groups.upsert(group("unowned", labels=owned["labels"]))

    def is_taken(name: str) -> bool:
        return informers.group_is_taken(kind, "team", name, ("Job", "sweep"))

    names = ("mine", "other", "free", "copied", "unowned", "absent")
    taken = {name for name in names if is_taken(name)}
    groups.delete(("team", "free"))

    assert taken == {"other", "free", "copied", "unowned"}
    assert not is_taken("free")


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param((), True, id="whatever has the name"),
        pytest.param(("u",), True, id="the owner's UID"),
        pytest.param(("Job/sweep",), True, id="its name"),
        pytest.param(("v",), False, id="the UID of the next"),
    ],
)
def test_whose_pods_belong_to_a_group(
    informers: ClusterInformers, claims: tuple[str, ...], want: bool
) -> None:
    groups = informers._pod_groups
    groups.upsert(group("mine", deletionTimestamp=GONE, **made_for(JOB, "sweep", "u")))

    assert informers.pod_group_is_deleting("team", "mine", claims) is want
    groups.upsert(group("mine", version="2", deletionTimestamp=GONE))
    assert informers.pod_group_is_deleting("team", "mine", claims) is (claims == ())


def test_a_group_that_an_earlier_version_named_is_found_by_its_pods_name(
    informers: ClusterInformers,
) -> None:
    """Pods name it by Workload `a` and template `b-c`, which was and is not the group of `a-b`."""
    own, other = implicit_pod_group("a", "b-c"), implicit_pod_group("a-b", "c")
    spec = {"workloadRef": {"templateName": "b-c"}, "resourceClaims": ENTRIES}
    owner = made_for(WORKLOAD, "a", "u")
    informers._pod_groups.upsert(group("a-b-c", spec, deletionTimestamp=GONE, **owner))

    assert informers.shared_claims("team", own) == {"a": "t"}
    assert informers.pod_group_is_deleting("team", own, ())
    assert informers.shared_claims("team", other) == {}
    assert not informers.pod_group_is_deleting("team", other, ())
    informers._pod_groups.delete(("team", "a-b-c"))
    assert informers.shared_claims("team", own) == {}


def test_a_composite_has_its_parent_until_it_is_gone(informers: ClusterInformers) -> None:
    composites, spec = informers._composites, {"parentCompositePodGroupName": "root"}

    composites.upsert(group("mid", spec))
    there = informers.composite("team", "mid")
    composites.upsert(group("mid", spec, version="2", deletionTimestamp=GONE))
    leaving = informers.composite("team", "mid")
    composites.delete(("team", "mid"))

    assert there is not None
    assert leaving is not None
    assert (there.parent, there.deleting) == ("root", False)
    assert (leaving.parent, leaving.deleting) == ("root", True)
    assert informers.composite("team", "mid") is None


def test_the_claims_of_a_group_are_known_while_it_is_there(informers: ClusterInformers) -> None:
    groups = informers._pod_groups

    groups.upsert(group("g", {"resourceClaims": ENTRIES}))
    assert informers.shared_claims("team", "g") == {"a": "t"}
    groups.upsert(group("g", {"resourceClaims": None}, version="2"))
    assert informers.shared_claims("team", "g") == {}
    groups.upsert(group("g", {"resourceClaims": ENTRIES}, version="3"))
    groups.delete(("team", "g"))
    assert informers.shared_claims("team", "g") == {}
