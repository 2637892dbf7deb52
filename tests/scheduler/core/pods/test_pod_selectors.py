"""The index of pods by selector finds the same pods as a check of every pod."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.pods.pod_selectors import selects
from scheduler.core.values.model import Expression, PodInfo, PodSelector, PodTerm, Requirements
from tests.scheduler.state_builder import StateBuilder, requests

KEYS, VALUES, SPACES = ("app", "job"), ("a", "b", ""), ("ns0", "ns1", "ns2")


def selector(chance: random.Random) -> PodSelector:
    expressions = []
    for _ in range(chance.choice((0, 1, 1, 2))):
        operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = chance.choices(VALUES, k=2) if operator in ("In", "NotIn") else []
        expressions.append(Expression(chance.choice(KEYS), operator, tuple(values)))
    # A manifest may name a namespace twice.
    spaces = tuple(chance.choices(SPACES, k=chance.choice((0, 1, 1, 3))))
    asked = chance.choice((None, None, None, (), (Expression("team", "In", ("x",)),)))
    return PodSelector(tuple(expressions) if chance.random() < 0.95 else None, spaces, asked)


def labels(chance: random.Random) -> dict[str, str]:
    return {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.6}


@given(st.integers(0, 2**32))
def test_marks_are_those_of_asking_every_pod_about_every_term(seed: int) -> None:
    chance = random.Random(seed)
    builder = StateBuilder()
    state = builder.state
    for space in SPACES[:2]:
        state.set_namespace(space, {"team": chance.choice("xy")})
    pods: dict[str, PodInfo] = {}
    for _ in range(30):
        act = chance.choice(("come", "come", "come", "relabel", "go"))
        if act == "come" or not pods:
            terms = (PodTerm(selector(chance), "host"),) if chance.random() < 0.5 else ()
            wants = Requirements(requests(1), required_anti_affinity=terms)
            space = chance.choice(SPACES)
            info = builder.pod(requirements=wants, namespace=space, labels=labels(chance))
            pods[info.uid] = info
        elif act == "relabel":
            uid = chance.choice(sorted(pods))
            pods[uid] = replace(pods[uid], labels=labels(chance))
            state.set_pod(pods[uid])
        else:
            uid = chance.choice(sorted(pods))
            del pods[uid]
            state.remove_pod(uid)
            state.take_changes()

    state.take_changes()
    terms_of = {term for info in pods.values() for term in info.requirements.required_anti_affinity}
    selectors = state.selectors
    for uid, info in pods.items():
        about = {t for t in terms_of if selects(t.selector, info, selectors.namespaces)}
        want = {selectors.match_id((t.selector,), declared=t) for t in about}
        marks = state.pods[uid].shape.matches
        assert marks.excluded_by == tuple(sorted(want)), (info, about)
        assert marks == selectors.matches(info)
