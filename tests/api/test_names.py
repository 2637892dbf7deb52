"""Generated names fit a label, are stable, and differ if their sources differ."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from api import names

DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SUBDOMAIN = st.lists(DNS, min_size=1, max_size=3).map(".".join).filter(lambda it: len(it) <= 253)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(names.workload_name("JobSet", "a", "ns"), "w-a", id="Workload of a JobSet"),
        pytest.param(names.workload_name("Job", "a", "ns"), "w-job-a", id="Workload of a Job"),
        pytest.param(names.jobset_pod_group("ns", "a"), "pg-a", id="PodGroup of a JobSet"),
        pytest.param(
            names.jobset_pod_group("ns", "a", "b"), "pg-a-b", id="PodGroup of a replicatedJob"
        ),
        pytest.param(names.jobset_pod_group("ns", "a", "b", 0), "pg-a-b-0", id="PodGroup of Job 0"),
        pytest.param(names.jobset_composite("ns", "a"), "cpg-a", id="composite of a JobSet"),
        pytest.param(
            names.jobset_composite("ns", "a", "b"), "cpg-a-b", id="composite of a replicatedJob"
        ),
        pytest.param(names.job_pod_group("ns", "a.b"), "pg-job-a.b", id="PodGroup of a Job"),
        pytest.param(
            names.implicit_pod_group("w", "t", "0"), "w-t-0", id="implicit group with a key"
        ),
        pytest.param(names.implicit_pod_group("w", "t"), "w-t", id="implicit group without a key"),
        pytest.param(names.group_claim("g", "imex"), "g.imex", id="claim of a PodGroup"),
        pytest.param(
            names.group_claim("x" * 250, "imex"),
            "x" * 237 + "-086d4a1c29" + ".imex",
            id="a claim's name over 253 characters is hashed",
        ),
        pytest.param(
            names.shorten("x" * 64, "PodGroup", "ns"),
            "x" * 52 + "-" + "b403d6aceb",
            id="64 characters are hashed",
        ),
        pytest.param(names.shorten("x" * 63, "PodGroup", "ns"), "x" * 63, id="63 characters fit"),
    ],
)
def test_names_are_as_documented(made: str, want: str) -> None:
    assert made == want


@given(name=SUBDOMAIN, namespace=DNS)
def test_a_shortened_name_is_a_valid_label_value_and_object_name(name: str, namespace: str) -> None:
    made = names.shorten(name, "PodGroup", namespace)

    assert len(made) <= 63
    assert names.is_dns_subdomain(made)


@given(one=SUBDOMAIN, other=SUBDOMAIN, namespace=DNS)
def test_different_names_stay_different(one: str, other: str, namespace: str) -> None:
    assume(one != other)

    made = {names.shorten(name, "PodGroup", namespace) for name in (one, other)}

    assert len(made) == 2


@given(prefix=SUBDOMAIN, uid=st.uuids().map(str))
def test_a_job_without_a_name_gets_a_group_that_a_label_can_hold(prefix: str, uid: str) -> None:
    made = names.generated_job_pod_group(f"{prefix}-", uid)

    assert len(made) <= 63
    assert names.is_dns_subdomain(made)
    assert made != names.generated_job_pod_group(f"{prefix}-", f"{uid}x")


@given(name=SUBDOMAIN, namespace=DNS)
def test_a_template_name_is_a_dns_label(name: str, namespace: str) -> None:
    assert names.is_dns_label(names.template_name("pg", name, namespace))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("example.com/rack", True, id="with a prefix"),
        pytest.param("Rack_1", True, id="without a prefix"),
        pytest.param("/rack", False, id="an empty prefix"),
        pytest.param("rack/", False, id="an empty name"),
        pytest.param("a/b/c", False, id="two slashes"),
        pytest.param("x" * 64, False, id="a name of 64 characters"),
        pytest.param("rack\n", False, id="a line feed at the end"),
    ],
)
def test_label_keys(text: str, want: bool) -> None:
    assert names.is_label_key(text) is want


@given(one=SUBDOMAIN, other=SUBDOMAIN, first=DNS, second=DNS)
def test_each_entry_of_each_group_has_a_claim_of_its_own(
    one: str, other: str, first: str, second: str
) -> None:
    assume((one, first) != (other, second))

    made = [names.group_claim(one, first), names.group_claim(other, second)]

    assert made[0] != made[1]
    assert all(map(names.is_dns_subdomain, made))
