"""The cases of the end-to-end measurements."""

import pytest

from bench.e2e import claims, victims
from bench.e2e.cases import CASES
from bench.e2e.objects import OURS, Json, composite


@pytest.mark.parametrize("name", CASES)
def test_a_small_case_keeps_its_shape(name: str) -> None:
    case = CASES[name]
    small = case.scaled(100, 0.1)
    assert small.pods == pytest.approx(case.pods * 0.1, rel=0.5, abs=case.size)
    assert (small.racks, small.rate, small.subjects) == (case.racks, case.rate, case.subjects)


CLAIMS = [name for name, case in CASES.items() if case.claims is not None]


@pytest.mark.parametrize("name", CLAIMS)
def test_devices_suffice_for_all_pods(name: str) -> None:
    case = CASES[name]
    content = case.claims
    assert content is not None
    made = [device for each in claims.slices(case) for device in each["spec"].get("devices", ())]

    if content.content == "partitions":
        wanted = 4 * case.pods  # besides those that others have, and those that exclude them
        assert len(made) == wanted + 2 * case.pods
    else:
        sharers = max(1, content.sharers)
        free = len(made) * (1 - content.taken)
        assert free >= case.pods / sharers


@pytest.mark.parametrize("name", CLAIMS)
def test_a_pods_claim_is_named_after_it_or_shared_within_its_gang(name: str) -> None:
    case = CASES[name]
    content = case.claims
    assert content is not None
    names = [
        (gang, claims.claim_of(content, pod["metadata"]["name"]))
        for gang, pods in OURS.waiting(case)
        for pod in pods
    ]

    assert len(set(names)) == case.pods // max(1, content.sharers)
    assert len({claim for _, claim in names}) == len(set(names))


def test_all_but_ten_devices_are_taken_where_ten_are_free() -> None:
    case = CASES["perf-steady-full"]
    taken = [name for name, _ in claims._taken(case)]

    assert len(taken) == len(set(taken)) == 500 * 10 - 10


def test_what_comes_and_goes_does_so_for_a_shorter_time_on_fewer_nodes() -> None:
    small = CASES["perf-steady-half"].scaled(50, 0.2)

    assert (small.nodes, small.size, small.steady) == (50, 10, 2.0)


VICTIMS = [name for name, case in CASES.items() if case.victims is not None]


def millicores(pod: Json) -> int:
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return int(cpu.removesuffix("m"))


@pytest.mark.parametrize("name", VICTIMS)
def test_as_many_victims_as_said_make_room_for_a_pod_and_one_less_does_not(name: str) -> None:
    case = CASES[name]
    content = case.victims
    assert content is not None
    there = [*OURS.victims(case), *victims.anchors(case)]
    on_one = [pod for pod in there if pod["spec"]["nodeName"] == "n7"]
    free = content.cpu - sum(map(millicores, on_one))
    wanted = {millicores(pod) for _, pods in OURS.waiting(case) for pod in pods}

    if content.urgent:
        assert wanted == {victims.SMALL_CPU}
        assert free * case.nodes >= victims.SMALL_CPU * case.pods
        wanted = {millicores(victims.preemptor(content, "urgent"))}
    assert wanted == {content.wanted}
    assert free + (content.fewest - 1) * content.taken < content.wanted
    assert free + content.fewest * content.taken >= content.wanted
    assert len({pod["metadata"]["name"] for pod in there}) == len(there)
    assert len({pod["spec"]["nodeName"] for pod in there}) == case.nodes


@pytest.mark.parametrize("name", [name for name in VICTIMS if CASES[name].composite])
def test_gangs_that_form_a_composite_gang_name_it(name: str) -> None:
    case = CASES[name]
    gangs = [gang for gang, _ in OURS.waiting(case) if gang]
    root = composite(case, gangs)
    groups = [OURS.group(case, gang) for gang in gangs]

    parents = {group["spec"]["parentCompositePodGroupName"] for group in groups}
    assert parents == {root["metadata"]["name"]}
    assert root["spec"]["schedulingPolicy"]["gang"]["minGroupCount"] == len(gangs)
