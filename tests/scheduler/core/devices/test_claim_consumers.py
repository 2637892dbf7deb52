"""The users of claims, and claims that have lost their last pod."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.devices.claim_consumers import ClaimConsumers
from scheduler.core.values.model import ClaimKey
from tools.testing.effort import examples

PODS = ("a", "b", "c")
CLAIMS: tuple[ClaimKey, ...] = (("ns", "x"), ("ns", "y"))

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(CLAIMS), st.sampled_from(PODS)),
        st.tuples(st.just("assume"), st.sampled_from(CLAIMS), st.sampled_from(PODS)),
        st.tuples(st.just("give_back"), st.sampled_from(CLAIMS), st.sampled_from(PODS)),
        st.tuples(st.just("join"), st.sampled_from(CLAIMS), st.sampled_from(PODS)),
        st.tuples(st.just("leave"), st.sampled_from(CLAIMS), st.sampled_from(PODS)),
        st.tuples(st.just("confirm"), st.sampled_from(CLAIMS), st.just("")),
        st.tuples(st.just("forget"), st.sampled_from(CLAIMS), st.just("")),
        st.tuples(st.just("reserve"), st.sampled_from(CLAIMS), st.sampled_from(("", *PODS, "ab"))),
        st.tuples(st.just("elsewhere"), st.sampled_from(CLAIMS), st.sampled_from(("", "a"))),
    ),
    max_size=30,
)


class Plain:
    """The same by a full scan each time."""

    def __init__(self) -> None:
        self.alive: set[str] = set()
        self.reserved: dict[ClaimKey, set[str]] = {key: set() for key in CLAIMS}
        self.assumed: dict[ClaimKey, set[str]] = {key: set() for key in CLAIMS}
        self.joining: dict[ClaimKey, set[str]] = {key: set() for key in CLAIMS}
        self.elsewhere: set[ClaimKey] = set()

    def of(self, key: ClaimKey) -> set[str]:
        return self.reserved[key] | self.assumed[key]

    def living(self, key: ClaimKey) -> int:
        return len(self.of(key) & self.alive) + (key in self.elsewhere)


def apply(what: str, key: ClaimKey, uid: str, plain: Plain, consumers: ClaimConsumers) -> None:
    if what == "pod":
        plain.alive ^= {uid}
        consumers.pod_changed(uid)
    elif what == "assume":
        plain.assumed[key].add(uid)
        consumers.assume(key, uid)
    elif what == "give_back":
        plain.assumed[key].discard(uid)
        assert consumers.give_back(key, uid) == (not plain.assumed[key])
    elif what == "join":
        plain.joining[key].add(uid)
        consumers.join(key, uid)
    elif what == "leave":
        plain.joining[key].discard(uid)
        consumers.leave(key, (uid,))
    elif what == "confirm":
        plain.assumed[key].clear()
        consumers.confirm(key)
    elif what == "forget":
        plain.assumed[key], plain.reserved[key], plain.joining[key] = set(), set(), set()
        plain.elsewhere.discard(key)
        consumers.forget(key)
    else:
        plain.reserved[key] = set(uid)
        plain.joining[key] -= plain.reserved[key]
        plain.elsewhere.discard(key)
        if what == "elsewhere":
            plain.elsewhere.add(key)
        consumers.reserve(key, frozenset(uid), elsewhere=what == "elsewhere")


@examples(50, 250)
@given(OPERATIONS)
def test_counters_are_what_a_look_at_everything_says(
    operations: list[tuple[str, ClaimKey, str]],
) -> None:
    plain = Plain()
    consumers = ClaimConsumers(lambda uid: uid in plain.alive)
    for what, key, uid in operations:
        apply(what, key, uid, plain, consumers)

        for each in CLAIMS:
            assert consumers.of(each) == plain.of(each)
            assert consumers.entries(each) == plain.of(each) | plain.joining[each]
            assert consumers.living(each) == plain.living(each)
            gone = bool(plain.of(each)) and not plain.living(each)
            assert (each in consumers.returning) == gone
        for pod in PODS:
            assert set(consumers.claims_of(pod)) == {c for c in CLAIMS if pod in plain.of(c)}
        assert len(consumers) == len(plain.of(CLAIMS[0]) | plain.of(CLAIMS[1]))


@pytest.mark.parametrize(
    ("reserved", "assumed", "joining", "want"),
    [
        pytest.param(256, 0, 0, True, id="as the status says"),
        pytest.param(0, 100, 156, False, id="assumed pods are counted once"),
        pytest.param(200, 0, 256, True, id="with those that the status will name"),
        pytest.param(255, 0, 0, False, id="one place is left"),
    ],
)
def test_a_claim_is_full_with_all_that_are_on_their_way(
    reserved: int, assumed: int, joining: int, *, want: bool
) -> None:
    consumers = ClaimConsumers(lambda _uid: True)
    key = CLAIMS[0]
    consumers.reserve(key, frozenset(map(str, range(reserved))))
    for uid in map(str, range(assumed)):
        consumers.assume(key, uid)
    for uid in map(str, range(joining)):
        consumers.join(key, uid)

    assert consumers.is_full(key) == want
