"""Pods wait for their ResourceClaims, and are re-evaluated when these change."""

from typing import Any, cast

import msgspec
import pytest

from api.constants import ANNOTATION_STANDS_FOR, JOB
from api.features import USUAL, Feature, FeatureGates
from kube.client.client import Client
from kube.client.resources import RESOURCE_CLAIMS
from scheduler.core.values.device_asks import Ask
from scheduler.decoding import pod_claims
from scheduler.decoding.device_objects import decode_resource_claim
from scheduler.decoding.objects import decode_group
from scheduler.status.conditions import held_views
from scheduler.watch.informers import SchedulerInformers
from tests.scheduler.claims.claims_harness import ClaimsHarness
from tests.support.owners import made_for

KEY = ("ns", "p-0")


def info(harness: ClaimsHarness, name: str = "p") -> Any:
    return harness.builder.state.pods[f"uid-{name}"].info


def test_a_pod_waits_until_its_claim_is_there() -> None:
    harness = ClaimsHarness()
    harness.pod("p")

    assert info(harness).unclaimed.startswith('could not find ResourceClaim "ns/p-0"')
    assert harness.builder.state.singles == {}
    assert list(harness.builder.state.held) == [("Pod", "ns", "p")]
    harness.claim("p-0", owner="p")
    assert info(harness).unclaimed == ""
    assert list(harness.builder.state.singles) == [("Pod", "ns", "p")]
    assert harness.builder.state.held == {}
    assert info(harness).device_claims == (KEY,)
    (ask,) = info(harness).requirements.asks
    assert isinstance(ask, Ask)


def test_pods_of_one_template_share_a_shape() -> None:
    harness = ClaimsHarness()
    for name in ("p", "q"):
        harness.pod(name)
        harness.claim(f"{name}-0", owner=name)

    pods = harness.builder.state.pods
    assert pods["uid-p"].shape is pods["uid-q"].shape


def test_a_pod_that_is_pinned_by_its_claim_asks_for_that() -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    harness.claim("p-0", owner="p")
    harness.foreign("p-0", "n0", "d0", "p")

    assert info(harness).requirements.asks == (KEY,)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.dev/b"]}},
            'resourceclaim "p-0" is being deleted',
            id="a claim that is going",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": []}},
            "ResourceClaim ns/p-0 was not created for Pod ns/p (Pod is not owner)",
            id="a claim of somebody else",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_is_waited_for(change: dict[str, Any], want: str) -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    claim = harness.claim("p-0", owner="p")
    claim["metadata"] |= change["metadata"]
    harness.api.store(claim)

    assert info(harness).unclaimed.startswith(want)


def test_a_claim_that_is_not_made_yet_is_waited_for() -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    pod = harness.api.pods["p"]
    pod["status"] = {}
    harness.pod_event(pod)

    assert info(harness).unclaimed.startswith('pod "ns/p": ResourceClaim not created yet')
    pod["status"] = {"resourceClaimStatuses": [{"name": "own0"}]}
    harness.pod_event(pod)
    assert (info(harness).unclaimed, info(harness).requirements.asks) == ("", ())


def test_a_claim_that_goes_is_waited_for_again() -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    harness.claim("p-0", owner="p")
    harness.claims.delete(KEY)

    assert info(harness).unclaimed.startswith('could not find ResourceClaim "ns/p-0"')


@pytest.mark.parametrize(
    ("entry", "want"),
    [
        pytest.param({"name": "x", "magic": 1}, "unknown field `magic`", id="an unknown field"),
        pytest.param({"name": "x"}, "neither a claim nor a template", id="an unknown source"),
    ],
)
def test_an_entry_that_is_not_understood_refuses_the_pod(entry: dict[str, Any], want: str) -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    pod = harness.api.pods["p"]
    pod["spec"]["resourceClaims"] = [entry]
    harness.pod_event(pod)

    (unsupported,) = info(harness).requirements.unsupported
    assert want in unsupported
    assert unsupported.startswith("resourceClaims[0]")


def test_a_claim_that_is_not_understood_refuses_its_pods_until_it_is() -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    harness.claim("p-0", owner="p", quantum=True)
    (unsupported,) = info(harness).requirements.unsupported
    assert unsupported == (
        'ResourceClaim "p-0", which uses spec.devices.requests[0].exactly.quantum, which Muster'
        " does not know"
    )
    harness.claims.delete(KEY)
    harness.claim("p-0", owner="p")

    assert info(harness).requirements.unsupported == ()


def test_pods_with_claims_are_refused_where_claims_are_not_served() -> None:
    harness = ClaimsHarness(serves_claims=False)
    harness.pod("p")
    assert info(harness).requirements.unsupported == (pod_claims.NOT_SERVED,)

    harness.claim("p-0", owner="p")
    harness.pods.serve_claims()

    assert info(harness).requirements.unsupported == ()
    assert info(harness).device_claims == (KEY,)


def test_members_without_claims_do_not_count_for_the_quorum() -> None:
    harness = ClaimsHarness()
    key = harness.builder.gang("g", 2)
    for name in ("a", "b"):
        harness.pod(name, "g")
    harness.claim("a-0", owner="a")
    group = harness.builder.state.forest.groups[key]
    assert (group.available, len(group.held_by("claims"))) == (1, 1)
    (view,) = held_views(group.held_by("claims").values())
    assert view.message == (
        'could not find ResourceClaim "ns/b-0". Create it, or correct the name.'
    )

    harness.claim("b-0", owner="b")

    assert (group.available, group.held) == (2, {})
    assert group.quorate


def test_a_claim_that_thousands_name_costs_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_claims, "MOST_NAMING", 3)
    harness = ClaimsHarness()
    harness.claim("common")
    for at in range(5):
        harness.pod(f"p{at}", own=0, shared=["common"])
    waiting = [at for at in range(5) if info(harness, f"p{at}").unclaimed]
    assert waiting == [3, 4]
    assert info(harness, "p4").unclaimed.startswith(
        'resourceclaim "common" is named by more than 3 pods'
    )

    harness.delete_pod("p0")

    assert [at for at in range(1, 5) if info(harness, f"p{at}").unclaimed] == [4]


def test_a_pod_keeps_its_rank_when_its_own_claim_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_claims, "MOST_NAMING", 1)
    harness = ClaimsHarness()
    harness.claim("common")
    harness.pod("p", shared=["common"], named=False)
    harness.pod("q", own=0, shared=["common"])
    harness.claim("p-0", owner="p")
    harness.pod("p", shared=["common"])

    assert info(harness, "p").unclaimed == ""
    assert "is named by more than 1 pods" in info(harness, "q").unclaimed


def test_a_pod_that_does_not_name_a_claim_any_more_makes_room_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound pod no longer waits for the claim of its extended resources; others may name it."""
    monkeypatch.setattr(pod_claims, "MOST_NAMING", 1)
    harness = ClaimsHarness()
    harness.claim("common")
    harness.claim("other")
    for name in ("p", "q"):
        harness.pod(name, own=0, shared=["common"])
    harness.pod("p", own=0, shared=["other"])

    assert [info(harness, name).unclaimed for name in ("p", "q")] == ["", ""]


def test_an_older_version_than_was_written_is_not_taken_in() -> None:
    harness = ClaimsHarness()
    harness.pod("p")
    harness.claim("p-0", owner="p")
    before = dict(harness.api.claims["p-0"])
    harness.api.hold_events(RESOURCE_CLAIMS)
    harness.foreign("p-0", "n0", "d0", "p")
    after = harness.api.held_events.pop().obj
    harness.claims.written(decode_resource_claim(msgspec.json.encode(after)))

    harness.claim_event(before)
    assert harness.builder.state.devices.claims[KEY].allocation is not None
    assert harness.claims.awaits(KEY)
    harness.claim_event(after)
    assert not harness.claims.awaits(KEY)


def test_a_reason_to_refuse_claims_holds_wherever_they_are_served() -> None:
    harness = ClaimsHarness(claims_refused="resourceClaims (a reason)")
    harness.pod("p")
    harness.claim("p-0", owner="p")

    assert info(harness).requirements.unsupported == ("resourceClaims (a reason)",)


async def test_a_consumer_that_leaves_makes_room_for_one_that_waits() -> None:
    harness = ClaimsHarness()
    harness.device_class()
    harness.builder.node("n0")
    harness.devices("n0", 1)
    harness.claim("common")
    others = [f"p{at}" for at in range(256)]
    harness.foreign("common", "n0", "d0", *others)
    harness.pod("late", own=0, shared=["common"])
    async with harness.leading():
        await harness.settle(2)
        assert harness.api.bound == {}
        harness.foreign("common", "n0", "d0", *others[1:])
        await harness.settle(2)

    assert harness.api.bound == {"late": "n0"}


@pytest.mark.parametrize(
    ("gates", "want"),
    [
        (USUAL, ()),
        (
            USUAL.without(Feature.DEVICE_CLAIMS),
            ("resourceClaims (feature gate DeviceClaims is off)",),
        ),
    ],
)
def test_the_gate_decides_whether_claims_are_refused(
    gates: FeatureGates, want: tuple[str, ...]
) -> None:
    harness = ClaimsHarness()
    informers = SchedulerInformers(cast("Client", None), harness.builder.state, gates=gates)
    informers.pods.serve_claims()
    harness.pods = informers.pods
    harness.pod("p")
    harness.claim("p-0", owner="p")

    assert info(harness).requirements.unsupported == want


def sharing(
    harness: ClaimsHarness, *, uid: str = "uid-g", made: str = "", name: str = "g", **meta: Any
) -> None:
    """Add the PodGroup g, whose pods share the claim g.imex; `made` is in its status."""
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": "1"} | meta,
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 1}},
            "resourceClaims": [{"name": "imex", "resourceClaimTemplateName": "channel"}],
        },
    }
    if made:
        said = [{"name": "imex", "resourceClaimName": made}]
        body["status"] = {"resourceClaimStatuses": said}
    harness.groups.upsert(decode_group(msgspec.json.encode(body)))


def make(harness: ClaimsHarness, owner: str = "") -> None:
    """Create the claim g.imex, owned by the group with this UID or by none."""
    claim = harness.claim("g.imex")
    if owner:
        reference = {"kind": "PodGroup", "name": "g", "uid": owner, "controller": True}
        claim["metadata"]["ownerReferences"] = [{"apiVersion": "x/v1", **reference}]
        harness.api.store(claim)


NOT_OWNER = "ResourceClaim ns/g.imex was not created for PodGroup ns/g (PodGroup is not owner)"
NOT_SAID = 'PodGroup "ns/g": ResourceClaim g.imex is not in its status.resourceClaimStatuses yet'


@pytest.mark.parametrize(
    ("owner", "made", "want"),
    [
        pytest.param("", "", NOT_OWNER, id="a foreign claim"),
        pytest.param("", "g.imex", NOT_OWNER, id="a foreign claim that the status names"),
        pytest.param("uid-before", "", NOT_OWNER, id="that of an earlier group of the name"),
        pytest.param("uid-g", "", NOT_SAID, id="the group's, which its status does not name"),
        pytest.param("uid-g", "g.imex", "", id="the group's, as its status says"),
    ],
)
@pytest.mark.parametrize("first", ["claim", "pod", "group"])
def test_the_claim_of_a_group_is_taken_once_it_was_made_for_it(
    first: str, owner: str, made: str, want: str
) -> None:
    harness = ClaimsHarness()
    steps = {
        "claim": lambda: make(harness, owner),
        "pod": lambda: harness.pod("p", "g", own=0, shared=["g.imex"]),
        "group": lambda: sharing(harness, made=made),
    }
    for step in sorted(steps, key=lambda step: step != first):
        steps[step]()

    assert bool(info(harness).unclaimed) is bool(want)
    assert info(harness).unclaimed.startswith(want)
    assert info(harness).device_claims == (() if want else (("ns", "g.imex"),))


@pytest.mark.parametrize(("owner", "lacks"), [("uid-own", False), ("uid-g", True)])
def test_a_group_that_stands_for_a_name_has_its_own_claim_or_says_what_to_do(
    owner: str, lacks: bool
) -> None:
    harness = ClaimsHarness()
    notes = made_for(JOB, "j", "u")
    notes["annotations"][ANNOTATION_STANDS_FOR] = "g"
    sharing(harness, uid="uid-own", made="g.imex", name="g-own", **notes)
    make(harness, owner)
    harness.pod("p", "g-own", own=0, shared=["g.imex"])

    told = info(harness).unclaimed
    assert bool(told) is lacks
    assert not lacks or "delete and recreate the owner of the pods" in told


def test_what_the_status_says_later_is_heard_and_other_pods_may_use_the_claim() -> None:
    harness = ClaimsHarness()
    sharing(harness)
    make(harness, "uid-g")
    harness.pod("p", "g", own=0, shared=["g.imex"])
    harness.pod("other", own=0, shared=["g.imex"])
    assert info(harness).unclaimed.startswith(NOT_SAID)
    assert info(harness, "other").unclaimed == ""

    sharing(harness, made="g.imex")

    assert info(harness).unclaimed == ""
    sharing(harness, uid="uid-later", made="g.imex")
    assert info(harness).unclaimed.startswith(NOT_OWNER)


def test_a_pod_that_came_before_its_group_is_told_to_name_the_claim() -> None:
    harness = ClaimsHarness()
    harness.pod("p", "g")
    harness.claim("p-0", owner="p")
    assert info(harness).unclaimed == ""

    body = harness.api.pods["p"]
    entry = {"name": "imex", "resourceClaimTemplateName": "channel"}
    body["spec"]["resourceClaims"] = [entry]
    body["status"]["resourceClaimStatuses"] = [{"name": "imex", "resourceClaimName": "p-0"}]
    harness.pod_event(body)
    sharing(harness, made="g.imex")

    assert "use resourceClaimName g.imex instead" in info(harness).unclaimed


@pytest.mark.parametrize(
    ("owner", "way_out"),
    [
        ("", " Delete it, and Muster creates that of the group."),
        (
            "uid-g",
            " Muster's controllers create it; if they do not, see the events of the PodGroup.",
        ),
    ],
)
def test_who_waits_for_the_claim_of_its_group_is_told_the_way_out(owner: str, way_out: str) -> None:
    harness = ClaimsHarness()
    sharing(harness)
    make(harness, owner)
    harness.pod("p", "g", own=0, shared=["g.imex"])

    (view,) = held_views([harness.builder.state.pods["uid-p"]])

    assert way_out in view.message


@pytest.mark.parametrize("count", [64, 65])
async def test_a_pod_with_too_many_claims_is_refused_and_their_changes_cost_nothing(
    count: int,
) -> None:
    harness = ClaimsHarness()
    harness.device_class()
    harness.builder.node("n0")
    harness.devices("n0", 128)
    shared = [f"c{at}" for at in range(count)]
    for name in shared:
        harness.claim(name)
    harness.observe(harness.builder.gang("g", 1))
    harness.pod("p", "g", own=0, shared=shared)

    async with harness.leading():
        await harness.settle(5)

    if count == 64:
        assert harness.api.bound == {"p": "n0"}
        return
    assert harness.api.bound == {}
    said = harness.summary(("PodGroup", "ns", "g"))
    assert "65 resource claims, at most 64 are allowed" in said
    assert not harness.pods.claims.naming(("ns", "c0"))
