"""Generated names fit a label, are stable, and differ if their sources differ."""

from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from api import names

DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SUBDOMAIN = st.lists(DNS, min_size=1, max_size=3).map(".".join).filter(lambda it: len(it) <= 253)


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(names.workload_name("JobSet", "a"), "w-a", id="Workload of a JobSet"),
        pytest.param(names.workload_name("Job", "a"), "w-job-a", id="Workload of a Job"),
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
            names.implicit_pod_group("w", "t", "0"),
            "w-t-0-7b45666610",
            id="implicit group with a key",
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


SHORT = st.text("a-", min_size=1, max_size=4).filter(names.is_dns_label)
NAMES = st.one_of(SHORT, st.sampled_from(["0", "1", "job", "lws", "pg", "0123456789"]), DNS)
OPTIONAL = st.one_of(st.just(""), NAMES)
INDEX = st.one_of(st.none(), st.integers(0, 4999))


def of_jobset(jobset: str, replicated_job: str, index: int | None) -> str:
    plain = names.is_plain(jobset, replicated_job, "" if index is None else str(index))
    return names.jobset_pod_group(
        "ns", jobset, replicated_job, index, "" if plain else names.JOINED
    )


POD_GROUPS = st.one_of(
    st.tuples(st.just(of_jobset), st.tuples(NAMES, NAMES, INDEX)),
    st.tuples(st.just(of_jobset), st.tuples(NAMES, st.just(""), st.none())),
    st.tuples(st.just(lambda job: names.job_pod_group("ns", job)), st.tuples(NAMES)),
    st.tuples(st.just(names.implicit_pod_group), st.tuples(NAMES, NAMES, OPTIONAL)),
    st.tuples(st.just(names.subset_pod_group), st.tuples(NAMES, NAMES)),
)


@given(one=POD_GROUPS, other=POD_GROUPS)
@example(
    one=(names.implicit_pod_group, ("a", "b-c", "")),
    other=(names.implicit_pod_group, ("a-b", "c", "")),
)
@example(one=(of_jobset, ("a-b", "", None)), other=(of_jobset, ("a", "b", None)))
@example(one=(of_jobset, ("a-b-1", "", None)), other=(of_jobset, ("a", "b", 1)))
@example(one=(of_jobset, ("a", "b", 1)), other=(of_jobset, ("a", "b-1", None)))
@example(
    one=(of_jobset, ("job-a", "", None)),
    other=(lambda job: names.job_pod_group("ns", job), ("a",)),
)
@example(
    one=(names.implicit_pod_group, ("a", "b", "0123456789")),
    other=(names.implicit_pod_group, ("a-b", "0123456789", "")),
)
def test_other_parts_are_another_pod_group(one: Any, other: Any) -> None:
    assume(one[1] != other[1] or one[0].__name__ != other[0].__name__)

    made = [name(*parts) for name, parts in (one, other)]

    assert made[0] != made[1]
    for name, (_, parts) in zip(made, (one, other), strict=True):
        assert names.is_dns_subdomain(name)
        assert len(name) <= 63
        # The name says whose it is.
        assert parts[0][:40].rstrip("-") in name


@pytest.mark.parametrize("form", [names.JOINED, names.UNIQUE, "Native=0123456789"])
def test_each_form_of_a_jobset_s_names_has_one_for_each_group(form: str) -> None:
    parts = [("a", "b", 1), ("a", "b-1", None), ("a-b", "1", None), ("a-b-1", "", None)]

    made = {names.jobset_pod_group("ns", *each, form) for each in parts}

    assert len(made) == len(parts)


@given(one=st.tuples(NAMES, OPTIONAL), other=st.tuples(NAMES, OPTIONAL))
def test_other_parts_are_another_composite(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)

    def composite(jobset: str, replicated_job: str) -> str:
        form = "" if names.is_plain(jobset, replicated_job) else names.JOINED
        return names.jobset_composite("ns", jobset, replicated_job, form)

    made = {composite(*one), composite(*other), names.lws_composite("ns", one[0])}

    assert len(made) == 3
    assert all(map(names.is_dns_subdomain, made))


KINDS = st.sampled_from(["Job", "JobSet", "LeaderWorkerSet", "PodGroup"])


@given(one=st.tuples(KINDS, NAMES), other=st.tuples(KINDS, NAMES))
@example(one=("JobSet", "job-a"), other=("Job", "a"))
def test_other_owners_have_other_workloads(one: tuple[str, str], other: tuple[str, str]) -> None:
    assume(one != other)

    made = {names.workload_name(*one), names.workload_name(*other)}

    assert len(made) == 2
    assert all(map(names.is_dns_label, made))


@given(one=SUBDOMAIN, other=SUBDOMAIN, first=DNS, second=DNS)
def test_each_entry_of_each_group_has_a_claim_of_its_own(
    one: str, other: str, first: str, second: str
) -> None:
    assume((one, first) != (other, second))

    made = [names.group_claim(one, first), names.group_claim(other, second)]

    assert made[0] != made[1]
    assert all(map(names.is_dns_subdomain, made))
