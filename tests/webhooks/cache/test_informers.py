"""The webhook's caches of the cluster follow every change."""

from datetime import UTC, datetime
from typing import Any

import pytest

from api.constants import JOB
from api.priority import PriorityClass
from kube.client.meta import ObjectMeta, Partial
from tests.support.owners import made_for
from webhooks.cache.informers import (
    Composite,
    CompositeObject,
    Composites,
    CompositeSpec,
    DeletingObjects,
    GroupOwners,
    PodGroupObject,
    PodGroups,
    PriorityClasses,
    PriorityClassObject,
    decode_pod_group,
)

GONE = datetime(2026, 1, 1, tzinfo=UTC)


def test_priority_classes_come_change_and_go() -> None:
    classes = PriorityClasses()
    high, low = ObjectMeta(name="high"), ObjectMeta(name="low")

    classes.upsert(PriorityClassObject(high, 10, preemption_policy="Never"))
    classes.upsert(PriorityClassObject(low, 1, global_default=True))
    both = list(classes.all())
    classes.upsert(PriorityClassObject(high, 20))
    classes.delete(("", "low"))
    classes.delete(("", "never-there"))

    assert both == [
        PriorityClass("high", 10, preemption_policy="Never"),
        PriorityClass("low", 1, global_default=True),
    ]
    assert list(classes.all()) == [PriorityClass("high", 20)]


def test_an_object_counts_as_deleting_until_it_is_gone_or_its_name_is_used_again() -> None:
    deleting = DeletingObjects()
    key = ("team", "root")

    def seen(deletion: datetime | None) -> bool:
        deleting.upsert(
            Partial(ObjectMeta(name="root", namespace="team", deletion_timestamp=deletion))
        )
        return key in deleting

    assert not seen(None)
    assert seen(GONE)
    deleting.delete(key)
    assert key not in deleting
    assert seen(GONE)
    assert not seen(None)
    assert ("other", "root") not in deleting


def test_a_group_is_taken_unless_it_was_made_for_the_same_owner() -> None:
    holders = GroupOwners()

    def group(name: str, owner: str = "", **said: Any) -> Partial:
        said = said or (made_for(JOB, owner, "u") if owner else {})
        # The garbage collector removes the reference to a deleted owner before it deletes the
        # group.
        return Partial(ObjectMeta(name, "team", **said))

    holders.upsert(group("mine", "sweep"))
    holders.upsert(group("other", "train"))
    holders.upsert(group("free"))
    holders.upsert(group("copied", annotations=made_for(JOB, "sweep", "u")["annotations"]))
    holders.upsert(group("nobody's", labels=made_for(JOB, "sweep", "u")["labels"]))

    taken = {
        name: holders.is_taken(("team", name), ("Job", "sweep"))
        for name in ("mine", "other", "free", "copied", "nobody's", "absent")
    }
    holders.delete(("team", "free"))

    assert {name for name, is_taken in taken.items() if is_taken} == {
        "other",
        "free",
        "copied",
        "nobody's",
    }
    assert not holders.is_taken(("team", "free"), ("Job", "sweep"))


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param((), True, id="whatever has the name"),
        pytest.param(("u",), True, id="the owner's UID"),
        pytest.param(("Job/sweep",), True, id="its name"),
        pytest.param(("v",), False, id="the UID of the next"),
    ],
)
def test_whose_pods_belong_to_a_group(claims: tuple[str, ...], want: bool) -> None:
    holders, key = GroupOwners(), ("team", "mine")
    holders.upsert(Partial(ObjectMeta("mine", "team", **made_for(JOB, "sweep", "u"))))

    assert holders.has_members(key, claims) is want
    holders.upsert(Partial(ObjectMeta("mine", "team")))
    assert holders.has_members(key, claims) is (claims == ())


def test_a_composite_has_its_parent_until_it_is_gone() -> None:
    composites, key = Composites(), ("team", "mid")
    spec = CompositeSpec(parent_composite_pod_group_name="root")

    composites.upsert(CompositeObject(ObjectMeta("mid", "team"), spec))
    there = composites.get(key)
    composites.upsert(CompositeObject(ObjectMeta("mid", "team", deletion_timestamp=GONE), spec))
    leaving = composites.get(key)
    composites.delete(key)

    assert there == Composite("root")
    assert leaving == Composite("root", deleting=True)
    assert composites.get(key) is None
    assert not composites.is_taken(key, ("JobSet", "j"))


def test_the_claims_of_a_group_are_known_while_it_is_there() -> None:
    groups, key = PodGroups(), ("team", "g")

    def group(spec: bytes) -> PodGroupObject:
        return decode_pod_group(
            b'{"metadata":{"name":"g","namespace":"team"},"spec":' + spec + b"}"
        )

    entries = b'[{"name":"a","resourceClaimTemplateName":"t"},{"name":"b","resourceClaimName":"c"}]'
    groups.upsert(group(b'{"resourceClaims":' + entries + b"}"))
    assert groups.shared_claims(key) == {"a": "t"}
    assert groups.owners.is_taken(key, ("Job", "x"))

    groups.upsert(group(b'{"resourceClaims":null}'))
    assert groups.shared_claims(key) == {}
    groups.upsert(group(b'{"resourceClaims":' + entries + b"}"))
    groups.delete(key)
    assert groups.shared_claims(key) == {}
    assert not groups.owners.is_taken(key, ("Job", "x"))
