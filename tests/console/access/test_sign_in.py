"""Sessions for tokens: their creation, their permissions, and their end."""

import asyncio
import base64
import json

import pytest
from cryptography.exceptions import InvalidTag

from console.access import refused_tokens, sign_in
from console.access import rights as rights_of
from console.access.reviews import Reviews, Right, User
from console.access.rights import Rights, RightsOfUsers
from console.access.sealed_token import unseal
from console.access.sign_in import TokenViewers
from console.base.protocols import Creation, RefusedError
from kube.base.errors import KubeError

ANNA, BEN = User("anna"), User("ben", groups=("tenants",))


class Cluster(Reviews):
    """Cluster that responds to reviews.

    `may` are the namespaces that users may list, "" for all.
    """

    def __init__(self) -> None:
        self.tokens = {"t-anna": ANNA, "t-ben": BEN}
        self.may: dict[str, set[str]] = {"anna": {"a"}, "ben": {"b"}}
        self.no_groups: set[str] = set()
        self.nodes: set[str] = set()
        self.may_get: set[tuple[str, str]] = set()
        self.there = ["a", "b"]
        self.asked: list[Right] = []
        self.users: list[User] = []
        """The users of the access reviews."""
        self.reviewed: list[str] = []
        self.broken = False
        self.no_reviews = False
        self.now = 1_000_000.0
        self.rights = RightsOfUsers(self, lambda: self.there, lambda: self.now)
        self.viewers = TokenViewers(self, self.rights, lambda: self.now)

    async def user(self, token: str) -> User | None:
        await asyncio.sleep(0)
        self.reviewed.append(token)
        if self.broken or self.no_reviews:
            raise KubeError("away")
        return self.tokens.get(token)

    async def allows(self, user: User, right: Right) -> bool:
        await asyncio.sleep(0)
        self.asked.append(right)
        self.users.append(user)
        if self.broken:
            raise KubeError("away")
        if right.verb == "get":
            return (user.name, right.resource) in self.may_get
        if right.resource == "nodes":
            return user.name in self.nodes
        if right.resource == "podgroups" and user.name in self.no_groups:
            return False
        return right.namespace in self.may[user.name]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def refused(cluster: Cluster, token: str, peer: str = "") -> int:
    with pytest.raises(RefusedError) as caught:
        await cluster.viewers.log_in(token, peer)
    assert len(token) < 4 or token not in caught.value.message
    return caught.value.status


async def test_a_token_gives_a_session_with_the_users_own_rights(cluster: Cluster) -> None:
    first = await cluster.viewers.viewer(await cluster.viewers.log_in(" t-anna\n"))
    second = await cluster.viewers.viewer(await cluster.viewers.log_in("t-ben"))

    assert first is not None
    assert second is not None
    assert (first.user, first.namespaces, first.nodes) == ("anna", frozenset({"a"}), False)
    assert (second.user, second.namespaces, second.nodes) == ("ben", frozenset({"b"}), False)
    assert first.session != second.session
    assert not first.local
    assert not first.sees("b")


async def test_who_may_list_everywhere_sees_all(cluster: Cluster) -> None:
    cluster.may["anna"], cluster.nodes = {""}, {"anna"}

    viewer = await cluster.viewers.viewer(await cluster.viewers.log_in("t-anna"))

    assert viewer is not None
    assert (viewer.namespaces, viewer.nodes) == (None, True)
    assert len(cluster.asked) == 3


async def test_the_right_to_create_is_reviewed_once_a_minute(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    here, there = (Creation("jobs", "batch", namespace) for namespace in ("a", "b"))

    assert await cluster.viewers.may_create(secret, here)
    assert cluster.asked[-1] == Right("jobs", "batch", "a", "create")
    assert not await cluster.viewers.may_create(secret, there)
    before = len(cluster.asked)
    assert await cluster.viewers.may_create(secret, here)
    assert len(cluster.asked) == before

    cluster.may["anna"] = {"b"}
    cluster.now += rights_of.FRESH
    assert not await cluster.viewers.may_create(secret, here)
    assert await cluster.viewers.may_create(secret, there)

    cluster.now += rights_of.FRESH
    cluster.broken = True
    with pytest.raises(RefusedError) as caught:
        await cluster.viewers.may_create(secret, here)
    assert caught.value.status == 503
    assert not await cluster.viewers.may_create("guess", here)


async def test_single_rights_are_kept_for_so_many(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rights_of, "MOST_REVIEWS", 2)
    reviews = rights_of.CachedReviews(cluster, lambda: cluster.now)
    for namespace in ("a", "b", "c", "a"):
        await reviews.allows(ANNA, Right("pods", "", namespace, "create"))
    assert [right.namespace for right in cluster.asked] == ["a", "b", "c", "a"]
    await reviews.allows(ANNA, Right("pods", "", "c", "create"))
    assert len(cluster.asked) == 4


async def test_the_yaml_of_an_object_needs_the_right_to_get_it(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    assert not await cluster.viewers.may_get(secret, "a/Job/train")
    assert cluster.asked[-1] == Right("jobs", "batch", "a", "get", "train")

    cluster.may_get = {("anna", "jobs")}
    assert await cluster.viewers.may_get(secret, "a/Job/train")
    assert not await cluster.viewers.may_get(secret, "a/JobSet/train")
    assert not await cluster.viewers.may_get(secret, "a/Secret/train")
    assert not await cluster.viewers.may_get("other", "a/Job/train")

    cluster.broken = True
    assert not await cluster.viewers.may_get(secret, "a/Job/train")


async def test_pods_alone_show_no_namespace(cluster: Cluster) -> None:
    cluster.no_groups = {"anna"}

    viewer = await cluster.viewers.viewer(await cluster.viewers.log_in("t-anna"))

    assert viewer is not None
    assert viewer.namespaces == frozenset()


@pytest.mark.parametrize(
    "token", ["", " ", "x", "t-anna\x00", "t-anna\r\nA: b", "\u00e9", "x" * 20_000, "\ud800"]
)
async def test_other_tokens_give_none(cluster: Cluster, token: str) -> None:
    assert await refused(cluster, token) == 401


@pytest.mark.parametrize("secret", ["", "x", "\u00e9", "\ud800", "1"])
async def test_no_other_secret_is_a_session(cluster: Cluster, secret: str) -> None:
    await cluster.viewers.log_in("t-anna")

    assert await cluster.viewers.viewer(secret) is None
    cluster.viewers.log_out(secret)
    assert cluster.viewers.use_key(secret) is None


async def test_a_session_ends_after_an_hour(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")

    cluster.now += sign_in.LASTS - 1
    assert await cluster.viewers.viewer(secret) is not None
    cluster.now += 1
    assert await cluster.viewers.viewer(secret) is None


@pytest.mark.parametrize(
    ("claims", "lasts"),
    [
        ({"exp": 1_000_060}, 60.0),
        ({"exp": 9_000_000}, sign_in.LASTS),
        ({"exp": "soon"}, sign_in.LASTS),
        ({}, sign_in.LASTS),
        ([], sign_in.LASTS),
    ],
)
async def test_a_session_ends_with_its_token(
    cluster: Cluster, claims: object, lasts: float
) -> None:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    token = f"head.{payload}.signature"
    cluster.tokens[token] = ANNA

    viewer = await cluster.viewers.viewer(await cluster.viewers.log_in(token))

    assert viewer is not None
    assert viewer.expires == cluster.now + lasts


async def test_log_out_ends_one_session(cluster: Cluster) -> None:
    first, second = [await cluster.viewers.log_in("t-anna") for _ in range(2)]

    cluster.viewers.log_out(first)

    assert await cluster.viewers.viewer(first) is None
    assert await cluster.viewers.viewer(second) is not None


async def test_it_may_end_while_rights_are_asked(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    asking = asyncio.create_task(cluster.viewers.viewer(secret))
    await asyncio.sleep(0)
    cluster.viewers.log_out(secret)

    assert await asking is None


async def test_rights_are_asked_again(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.may["anna"] = {"b"}
    asked = len(cluster.asked)

    before = await cluster.viewers.viewer(secret)
    assert len(cluster.asked) == asked
    cluster.now += rights_of.FRESH
    after = await cluster.viewers.viewer(secret)

    assert before is not None
    assert after is not None
    assert (before.namespaces, after.namespaces) == (frozenset({"a"}), frozenset({"b"}))


async def test_a_session_ends_when_all_rights_are_taken_away(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    assert await cluster.viewers.viewer(secret) is not None

    cluster.may["anna"] = set()
    cluster.now += rights_of.FRESH

    assert await cluster.viewers.viewer(secret) is None
    cluster.may["anna"] = {"a"}
    cluster.now += rights_of.FRESH
    assert await cluster.viewers.viewer(secret) is None


@pytest.mark.parametrize("everywhere", [True, False])
async def test_nodes_or_all_namespaces_that_are_taken_away_end_it_too(
    cluster: Cluster, everywhere: bool
) -> None:
    cluster.may["anna"] = {""} if everywhere else set()
    cluster.nodes = set() if everywhere else {"anna"}
    secret = await cluster.viewers.log_in("t-anna")
    assert await cluster.viewers.viewer(secret) is not None

    cluster.may["anna"], cluster.nodes = set(), set()
    cluster.now += rights_of.FRESH

    assert await cluster.viewers.viewer(secret) is None


async def test_a_session_ends_when_its_token_is_revoked(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    other = await cluster.viewers.log_in("t-ben")
    cluster.now += rights_of.FRESH - 1
    del cluster.tokens["t-anna"]
    assert await cluster.viewers.viewer(secret) is not None

    cluster.now += 1
    assert await cluster.viewers.viewer(secret) is None
    assert await cluster.viewers.viewer(other) is not None
    cluster.tokens["t-anna"] = ANNA
    assert await cluster.viewers.viewer(secret) is None


async def test_a_session_ends_when_its_token_is_somebody_elses(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    cluster.tokens["t-anna"] = BEN
    cluster.now += rights_of.FRESH

    assert await cluster.viewers.viewer(secret) is None


async def test_groups_that_a_user_has_left_count_no_more(cluster: Cluster) -> None:
    cluster.tokens["t-anna"] = User("anna", groups=("admins",))
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.tokens["t-anna"] = ANNA
    cluster.now += rights_of.FRESH

    await cluster.viewers.viewer(secret)

    assert cluster.users[-1] == ANNA


async def test_many_requests_review_a_token_once(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    cluster.now += rights_of.FRESH

    await asyncio.gather(*(cluster.viewers.viewer(secret) for _ in range(50)))
    await cluster.viewers.viewer(secret)

    assert cluster.reviewed == ["t-anna", "t-anna"]


async def test_a_token_that_cannot_be_reviewed_shows_nothing_and_is_asked_about_seldom(
    cluster: Cluster,
) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.now += rights_of.FRESH - 1
    await cluster.rights.of(ANNA)
    cluster.now += 1
    cluster.no_reviews = True

    seen = [await cluster.viewers.viewer(secret) for _ in range(5)]
    asked = len(cluster.reviewed)
    cluster.no_reviews = False
    cluster.now += rights_of.AGAIN
    after = await cluster.viewers.viewer(secret)

    assert all(viewer is not None and not viewer.namespaces for viewer in seen)
    assert asked == 2
    assert after is not None
    assert after.namespaces == frozenset({"a"})


async def test_who_leaves_does_not_end_the_review_of_others(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    cluster.now += rights_of.FRESH
    leaving, staying = (asyncio.create_task(cluster.viewers.viewer(secret)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying is not None
    assert cluster.reviewed == ["t-anna", "t-anna"]


async def test_a_session_goes_on_while_one_right_is_left(cluster: Cluster) -> None:
    cluster.nodes = {"anna"}
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.may["anna"] = set()
    cluster.now += rights_of.FRESH

    assert await cluster.viewers.viewer(secret) is not None


async def test_a_namespace_that_has_nothing_to_show_any_more_is_no_lost_right(
    cluster: Cluster,
) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.there = []
    cluster.now += rights_of.FRESH
    assert await cluster.viewers.viewer(secret) is not None

    asked = len(cluster.asked)
    for _ in range(5):
        assert await cluster.viewers.viewer(secret) is not None
    assert len(cluster.asked) == asked
    cluster.may["anna"] = set()
    cluster.now += rights_of.FRESH
    assert await cluster.viewers.viewer(secret) is None


async def test_a_right_of_long_ago_counts_as_long_as_it_is_there(cluster: Cluster) -> None:
    cluster.may["anna"] = {"a", "b"}
    secret = await cluster.viewers.log_in("t-anna")
    for there, left in ((["a"], {"a", "b"}), (["b"], {"a", "b"}), ([], {"a"})):
        cluster.there, cluster.may["anna"] = there, left
        cluster.now += rights_of.FRESH
        assert await cluster.viewers.viewer(secret) is not None


async def test_who_never_had_rights_stays_logged_in(cluster: Cluster) -> None:
    cluster.may["anna"] = set()
    secret = await cluster.viewers.log_in("t-anna")
    for _ in range(3):
        cluster.now += rights_of.FRESH
        assert await cluster.viewers.viewer(secret) is not None

    cluster.may["anna"] = {"a"}
    cluster.now += rights_of.FRESH
    viewer = await cluster.viewers.viewer(secret)
    assert viewer is not None
    assert viewer.sees("a")


async def test_an_api_server_that_does_not_answer_ends_no_session(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.broken = True
    for _ in range(3):
        cluster.now += rights_of.FRESH
        assert await cluster.viewers.viewer(secret) is not None


async def test_one_that_fails_while_lost_rights_are_looked_at_ends_none_either(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    await cluster.viewers.viewer(secret)
    cluster.may["anna"] = set()
    cluster.now += rights_of.FRESH
    await cluster.rights.of(ANNA)
    cluster.broken = True

    assert await cluster.viewers.viewer(secret) is not None


async def test_many_requests_ask_once(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")

    await asyncio.gather(*(cluster.viewers.viewer(secret) for _ in range(50)))

    assert len(cluster.asked) == len(set(cluster.asked))


async def test_without_an_answer_nothing_is_shown(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-anna")
    assert await cluster.rights.of(ANNA) == Rights(frozenset({"a"}))
    cluster.broken = True
    cluster.now += rights_of.FRESH

    viewer = await cluster.viewers.viewer(secret)
    cluster.broken = False
    cluster.now += 10
    again = await cluster.viewers.viewer(secret)

    assert viewer is not None
    assert again is not None
    assert (viewer.namespaces, viewer.nodes) == (frozenset(), False)
    assert again.namespaces == frozenset({"a"})


async def test_an_api_server_that_is_away_is_no_wrong_token(cluster: Cluster) -> None:
    cluster.broken = True
    for _ in range(2 * refused_tokens.AT_ONCE):
        assert await refused(cluster, "t-anna") == 503
    cluster.broken = False
    await cluster.viewers.log_in("t-anna")


async def test_wrong_tokens_are_limited(cluster: Cluster) -> None:
    secret = await cluster.viewers.log_in("t-ben")
    tries = [refused(cluster, f"wrong-{number}") for number in range(100)]
    statuses = await asyncio.gather(*tries)

    assert statuses.count(401) == refused_tokens.AT_ONCE
    assert await refused(cluster, "t-anna") == 429
    assert await cluster.viewers.viewer(secret) is not None
    cluster.now += 2
    await cluster.viewers.log_in("t-anna")


async def test_wrong_tokens_of_one_address_do_not_delay_others(cluster: Cluster) -> None:
    for number in range(2 * refused_tokens.AT_ONCE):
        await refused(cluster, f"wrong-{number}", "10.0.0.1")

    assert await refused(cluster, "t-anna", "10.0.0.1") == 429
    await cluster.viewers.log_in("t-anna", "10.0.0.2")
    await cluster.viewers.log_in("t-ben", "2001:db8::1")
    cluster.now += 2
    await cluster.viewers.log_in("t-anna", "10.0.0.1")


async def test_many_addresses_have_a_limit_together(cluster: Cluster) -> None:
    tries = [refused(cluster, "wrong-one", f"10.0.{n // 200}.{n % 200}") for n in range(900)]
    statuses = await asyncio.gather(*tries)

    assert statuses.count(401) == refused_tokens.ALL_AT_ONCE
    assert await refused(cluster, "t-anna", "10.9.9.9") == 429
    cluster.now += 1
    await cluster.viewers.log_in("t-anna", "10.9.9.9")


async def test_addresses_are_remembered_up_to_a_limit(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refused_tokens, "MOST_PEERS", 3)
    for number in range(9):
        await refused(cluster, "wrong-one", f"10.0.0.{number}")

    assert len(vars(vars(cluster.viewers)["_refused"])["_peers"]) == 3


@pytest.mark.parametrize(
    ("peer", "other", "one"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("x" * 9999, "", True),
    ],
)
def test_what_counts_as_one_address(peer: str, other: str, one: bool) -> None:
    assert (refused_tokens.network(peer) == refused_tokens.network(other)) is one


async def test_the_oldest_of_too_many_sessions_of_a_user_ends(cluster: Cluster) -> None:
    other = await cluster.viewers.log_in("t-ben")
    own = [await cluster.viewers.log_in("t-anna") for _ in range(sign_in.MOST_OF_USER + 1)]

    assert await cluster.viewers.viewer(own[0]) is None
    assert all([await cluster.viewers.viewer(secret) is not None for secret in own[1:]])
    assert await cluster.viewers.viewer(other) is not None


async def test_sessions_are_bounded_and_places_come_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MOST_SESSIONS", 1)
    await cluster.viewers.log_in("t-anna")

    assert await refused(cluster, "t-ben") == 503
    cluster.now += sign_in.LASTS
    await cluster.viewers.log_in("t-ben")


async def test_namespaces_are_asked_up_to_a_limit(cluster: Cluster) -> None:
    cluster.there = [f"n{number:05}" for number in range(2 * rights_of.MOST_NAMESPACES)]
    cluster.may["anna"] = set(cluster.there)

    found = await cluster.rights.of(ANNA)

    assert found.namespaces is not None
    assert len(found.namespaces) == rights_of.MOST_NAMESPACES


async def test_neither_tokens_nor_secrets_can_be_read_from_what_is_kept(cluster: Cluster) -> None:
    secrets = [await cluster.viewers.log_in("t-anna") for _ in range(2)]
    sessions = vars(cluster.viewers)["_sessions"]
    sealed = [session.token for session in sessions.values()]

    for kept in (repr(sessions).encode(), *sealed):
        assert b"t-anna" not in kept
        assert not any(secret.encode() in kept for secret in secrets)
    assert sealed[0] != sealed[1]
    assert unseal(sealed[0], secrets[0]) == "t-anna"
    with pytest.raises(InvalidTag):
        unseal(sealed[0], secrets[1])
