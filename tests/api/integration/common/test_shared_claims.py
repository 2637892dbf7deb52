"""The annotation `shared-claims`: the pods' and groups' fields, and rejections."""

from typing import Any

import jsonpatch
import pytest

from api.constants import ANNOTATION_CLAIM_TEMPLATES, ANNOTATION_GROUP_TEMPLATE, GROUP
from api.integration.common.owner_kind import Review
from api.integration.common.templates import TemplateNotFoundError, adapt
from api.integration.job.admission import job_admission, job_groups
from api.integration.job.delegation import Delegation, delegated_group
from api.integration.jobset.admission import jobset_admission, jobset_groups
from tests.support.owners import (
    JobBuilder,
    JobSetBuilder,
    job_template,
    make_job,
    make_jobset,
)

Json = dict[str, Any]
INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"
POD_CLAIMS = "spec.template.spec.resourceClaims"
SHARED = f"metadata.annotations[{GROUP}/shared-claims]"
OF_JOB_TEMPLATE = f"spec.replicatedJobs[0].template.{SHARED}"
OF_JOBSET_PODS = "spec.replicatedJobs[{}].template.spec.template.spec.resourceClaims[0]"


def gang(count: int = 2, shared: str = "imex", **claims: str) -> JobBuilder:
    claims = claims or {"imex": "channel"}
    return make_job("a").asks(gang_mode="Gang", shared_claims=shared).pods(count).claims(**claims)


def workers(count: int = 2, **claims: str) -> JobBuilder:
    return job_template().pods(count).claims(**(claims or {"imex": "channel"}))


def jobset(mode: str = "Gang", shared: str = "imex") -> JobSetBuilder:
    words = {"gang_mode": mode} | ({"shared_claims": shared} if shared else {})
    return make_jobset("s").asks(**words)


def admitted(job: Json, old: Json | None = None) -> Json:
    operation = "CREATE" if old is None else "UPDATE"
    admission = job_admission(job, Review(operation, old, uid="r", namespace="default"))
    patched: Json = jsonpatch.apply_patch(job, admission.patch)
    return patched


def job_faults(job: Json, old: Json | None = None) -> list[tuple[str, str]]:
    operation = "CREATE" if old is None else "UPDATE"
    found = job_admission(job, Review(operation, old, namespace="default"))
    return [(it.field, it.reason) for it in found.causes]


def jobset_faults(made: Json, old: Json | None = None) -> list[tuple[str, str]]:
    operation = "CREATE" if old is None else "UPDATE"
    return [(it.field, it.reason) for it in jobset_admission(made, Review(operation, old)).causes]


def pod_claims(job: Json) -> list[Json]:
    found: list[Json] = job["spec"]["template"]["spec"]["resourceClaims"]
    return found


def note(job: Json) -> str | None:
    said: str | None = job["metadata"].get("annotations", {}).get(ANNOTATION_CLAIM_TEMPLATES)
    return said


def by_name(name: str, claim: str) -> Json:
    return {"name": name, "resourceClaimName": claim}


def by_template(name: str, template: str = "channel") -> Json:
    return {"name": name, "resourceClaimTemplateName": template}


@pytest.mark.parametrize(
    ("job", "want", "want_note"),
    [
        pytest.param(gang(), [by_name("imex", "pg-job-a.imex")], "imex=channel", id="one entry"),
        pytest.param(
            gang(shared="b, a", a="x", own="y", b="z"),
            [by_name("a", "pg-job-a.a"), by_template("own", "y"), by_name("b", "pg-job-a.b")],
            "a=x,b=z",
            id="two of three: the third stays a claim for each pod",
        ),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").claims(imex="channel"),
            [by_template("imex")],
            None,
            id="without the annotation",
        ),
        pytest.param(
            make_job("a").asks(shared_claims="imex").claims(imex="channel"),
            [by_template("imex")],
            None,
            id="without a gang",
        ),
        pytest.param(
            gang().in_group("mine"), [by_template("imex")], None, id="in a group of the user's"
        ),
        pytest.param(
            gang().managed("pg-job-old").claim_entries(by_name("imex", "pg-job-old.imex")).noted(
                {ANNOTATION_CLAIM_TEMPLATES: "imex=channel"}
            ),
            [by_name("imex", "pg-job-a.imex")],
            "imex=channel",
            id="a copy of another Job names its own group's claim",
        ),
        pytest.param(
            make_job("a")
            .asks(shared_claims="imex")
            .managed("pg-job-old")
            .claim_entries(by_name("imex", "pg-job-old.imex"), by_name("b", "pg-job-old.b"))
            .noted({ANNOTATION_CLAIM_TEMPLATES: "imex=channel"}),
            [by_template("imex"), by_name("b", "pg-job-old.b")],
            None,
            id="a copy without a gang has claims of its own",
        ),
        pytest.param(
            gang().managed_by("example.com/queue").managed("pg-job-old")
            .claim_entries(by_name("imex", "pg-job-old.imex"))
            .noted({ANNOTATION_CLAIM_TEMPLATES: "imex=channel"}),
            [by_template("imex")],
            None,
            id="and so has one that another controller runs",
        ),
        pytest.param(
            gang().claim_entries(by_name("imex", "mine")).noted(
                {ANNOTATION_CLAIM_TEMPLATES: "imex=channel"}
            ),
            [by_name("imex", "mine")],
            None,
            id="a claim of the user's stays, and a wrong note goes",
        ),
        pytest.param(
            make_job("s-r-1").of_jobset("s", "r", 1, "Job").asks(
                gang_mode="ReplicatedGang", shared_claims="imex"
            ).claims(imex="channel"),
            [by_name("imex", "pg-s-r-1.imex")],
            "imex=channel",
            id="of a JobSet with a gang for each Job",
        ),
        pytest.param(
            make_job("s-r-1").of_jobset("s", "r", 1, "JobSet").asks(
                shared_claims="own", jobset_options="shared-claims=imex+b"
            ).claims(imex="channel", own="x"),
            [by_name("imex", "pg-s.imex"), by_template("own", "x")],
            "imex=channel",
            id="of a JobSet's gang: the JobSet's word counts",
        ),
        pytest.param(
            make_job("a").asks(shared_claims="imex").noted({ANNOTATION_GROUP_TEMPLATE: "t"})
            .scheduler("muster-scheduler").claims(imex="channel"),
            [by_name("imex", "pg-job-a.imex")],
            "imex=channel",
            id="a delegated Job",
        ),
    ],
)  # fmt: skip
def test_the_pods_name_the_groups_claim(
    job: JobBuilder, want: list[Json], want_note: str | None
) -> None:
    made = admitted(job.build())

    assert pod_claims(made) == want
    assert note(made) == want_note
    assert job_admission(made, Review("CREATE", namespace="default")).patch == []


@pytest.mark.parametrize("again", ["unchanged", "both", "without the note"])
def test_an_update_with_the_manifest_changes_nothing(again: str) -> None:
    stored = admitted(gang().build())
    sent = gang().build()
    if again == "both":  # as server-side apply merges it
        pod_claims(sent)[0]["resourceClaimName"] = "pg-job-a.imex"
    if again == "without the note":
        sent = admitted(gang().build())
        del sent["metadata"]["annotations"][ANNOTATION_CLAIM_TEMPLATES]

    kept = admitted(sent, stored)

    assert (pod_claims(kept), note(kept)) == (pod_claims(stored), note(stored))
    assert job_faults(kept, stored) == []


def test_another_template_is_left_to_the_api_server_to_refuse() -> None:
    stored = admitted(gang().build())

    kept = admitted(gang(imex="another").build(), stored)

    assert pod_claims(kept) == [by_template("imex", "another")]


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(gang(256), [], id="256 pods"),
        pytest.param(gang(257), [("spec.parallelism", INVALID)], id="257 pods"),
        pytest.param(
            gang(257).suspended(), [("spec.parallelism", INVALID)], id="257 of a suspended Job"
        ),
        pytest.param(
            make_job("a").asks(gang_mode="Gang", shared_claims="imex").pods(900, 256)
            .claims(imex="t"),
            [],
            id="no more than 256 at once, by its completions",
        ),
        pytest.param(gang(0), [], id="no pods"),
        pytest.param(gang(shared="nvl"), [(SHARED, INVALID)], id="no entry of the name"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang", shared_claims="imex"),
            [(SHARED, INVALID)],
            id="pods without claims",
        ),
        pytest.param(
            gang().claim_entries(by_name("imex", "mine")),
            [(f"{POD_CLAIMS}[0].resourceClaimName", INVALID)],
            id="an entry that names a claim",
        ),
        pytest.param(gang(shared=""), [(SHARED, INVALID)], id="nothing"),
        pytest.param(gang(shared="Imex"), [(SHARED, INVALID)], id="no DNS label"),
        pytest.param(gang(shared="imex,imex"), [(SHARED, "FieldValueDuplicate")], id="twice"),
        pytest.param(
            gang(shared="a,b,c,d,e"), [(SHARED, "FieldValueTooMany")], id="more than four"
        ),
    ],
)  # fmt: skip
def test_what_a_job_may_share(job: JobBuilder, want: list[tuple[str, str]]) -> None:
    assert job_faults(job.build()) == want
    assert job_faults(admitted(job.build())) == want


def test_a_refusal_says_how_many_pods_and_which_entries() -> None:
    said = job_admission(gang(300).build(), Review("CREATE")).causes[0].message
    assert said.endswith(
        "300 pods would use ResourceClaim imex at the same time, and at most 256 can: let "
        "fewer pods share it"
    )

    said = (
        job_admission(gang(shared="nvl", b="x", a="y").build(), Review("CREATE")).causes[0].message
    )
    assert said.endswith(
        "must match the name of an entry in spec.template.spec.resourceClaims: it has a, b"
    )


@pytest.mark.parametrize(
    ("new", "old", "want"),
    [
        pytest.param(gang(256), gang(2), [], id="scaled to 256"),
        pytest.param(gang(257), gang(2), [("spec.parallelism", INVALID)], id="scaled to 257"),
        pytest.param(gang(300), gang(300), [], id="it was over the limit before"),
        pytest.param(gang(shared="imex,b"), gang(), [(SHARED, INVALID)], id="another entry later"),
        pytest.param(
            make_job("a").asks(gang_mode="Gang").pods(2).claims(imex="channel"),
            gang(),
            [(SHARED, INVALID)],
            id="the annotation taken off",
        ),
    ],
)
def test_changes_of_a_job(new: JobBuilder, old: JobBuilder, want: list[tuple[str, str]]) -> None:
    stored = admitted(old.build())

    assert job_faults(admitted(new.build(), stored), stored) == want


def test_a_job_without_a_gang_is_told_that_the_annotation_does_nothing() -> None:
    job = make_job("a").asks(shared_claims="imex").claims(imex="channel").build()

    assert job_admission(job, Review("CREATE")).warnings == [
        f"{SHARED}: has no effect: no gang-mode creates a group at this level"
    ]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            jobset().replicated_job("a", 2, workers(100)).replicated_job("b", 1, workers(56)),
            [],
            id="256 pods of a whole JobSet",
        ),
        pytest.param(
            jobset().replicated_job("a", 2, workers(100)).replicated_job("b", 1, workers(57)),
            [(SHARED, INVALID)],
            id="257 pods of a whole JobSet",
        ),
        pytest.param(
            jobset()
            .replicated_job("a", 2, workers(100))
            .replicated_job("b", 100, job_template().pods(100)),
            [],
            id="those without the entry do not count",
        ),
        pytest.param(
            jobset().replicated_job("a", 1, job_template().pods(2)),
            [(SHARED, INVALID)],
            id="no replicatedJob has the entry",
        ),
        pytest.param(
            jobset().replicated_job("a", 1, workers()).replicated_job("b", 1, workers(imex="x")),
            [(OF_JOBSET_PODS.format(1) + ".resourceClaimTemplateName", INVALID)],
            id="two templates for one claim",
        ),
        pytest.param(
            jobset().replicated_job("a", 1, job_template().claim_entries(by_name("imex", "mine"))),
            [(OF_JOBSET_PODS.format(0) + ".resourceClaimName", INVALID)],
            id="an entry that names a claim",
        ),
        pytest.param(
            jobset("Composite").replicated_job("a", 1, workers()),
            [(SHARED, FORBIDDEN)],
            id="a tree of groups has no claim above its leaves",
        ),
        pytest.param(
            jobset("Composite", "").replicated_job(
                "a", 300, workers(256).asks(shared_claims="imex")
            ),
            [],
            id="each Job of a tree with a claim of its own",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "a", 2, workers(129).asks(gang_mode="Gang", shared_claims="imex")
            ),
            [(OF_JOB_TEMPLATE, INVALID)],
            id="258 pods of a replicatedJob",
        ),
        pytest.param(
            make_jobset("s").replicated_job(
                "a", 2, workers(129).asks(gang_mode="ReplicatedGang", shared_claims="imex")
            ),
            [],
            id="129 pods of each of its Jobs",
        ),
        pytest.param(
            jobset(shared="").replicated_job("a", 1, workers().asks(shared_claims="Bad")),
            [(OF_JOB_TEMPLATE, INVALID)],
            id="no DNS label",
        ),
    ],
)
def test_what_a_jobset_may_share(made: JobSetBuilder, want: list[tuple[str, str]]) -> None:
    assert jobset_faults(made.build()) == want


def test_the_annotation_of_a_jobset_does_not_change() -> None:
    old = jobset().replicated_job("a", 1, workers()).build()
    new = jobset(shared="").replicated_job("a", 1, workers()).build()

    assert jobset_faults(new, old) == [(SHARED, INVALID)]


def test_below_a_gang_of_the_jobset_it_has_no_effect() -> None:
    template = workers().asks(shared_claims="imex")
    made = jobset(shared="").replicated_job("a", 1, template).build()

    assert jobset_admission(made, Review("CREATE")).warnings == [
        f"{OF_JOB_TEMPLATE}: has no effect: no gang-mode creates a group at this level"
    ]


@pytest.mark.parametrize(
    ("mode", "want"),
    [("Gang", "shared-claims=imex+b"), ("Basic", "shared-claims=imex+b"), ("Composite", None)],
)
def test_the_job_templates_know_what_the_jobset_shares(mode: str, want: str | None) -> None:
    made = jobset(mode, "imex,b").replicated_job("a", 1, workers(imex="x", b="y")).build()
    stored = jsonpatch.apply_patch(made, jobset_admission(made, Review("CREATE")).patch)

    said = stored["spec"]["replicatedJobs"][0]["template"]["metadata"]["annotations"]
    parts = said.get(f"{GROUP}/jobset-options", "").split(",")
    assert [it for it in parts if it.startswith("shared-claims")] == ([want] if want else [])


def specs(objects: list[Json]) -> dict[str, Any]:
    return {it["metadata"]["name"]: it["spec"].get("resourceClaims") for it in objects}


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(
            jobset().replicated_job("a", 1, job_template()).replicated_job("b", 1, workers()),
            {"pg-s": [by_template("imex")]},
            id="one for the JobSet",
        ),
        pytest.param(
            make_jobset("s")
            .replicated_job(
                "a", 2, workers().asks(gang_mode="ReplicatedGang", shared_claims="imex")
            )
            .replicated_job("b", 1, workers().asks(gang_mode="Gang")),
            {
                "pg-s-a-0": [by_template("imex")],
                "pg-s-a-1": [by_template("imex")],
                "pg-s-b-63529e8450": None,
            },
            id="one for each Job",
        ),
        pytest.param(
            jobset("Composite", "").replicated_job("a", 1, workers().asks(shared_claims="imex")),
            {"cpg-s": None, "cpg-s-a-00ee2f36d5": None, "pg-s-a-0": [by_template("imex")]},
            id="in the leaves of a tree",
        ),
    ],
)  # fmt: skip
def test_the_groups_of_a_jobset_have_the_claims(made: JobSetBuilder, want: dict[str, Any]) -> None:
    stored = jsonpatch.apply_patch(
        made.build(), jobset_admission(made.build(), Review("CREATE")).patch
    )

    workload, *groups = jobset_groups(stored)

    assert specs(groups) == want
    said = str(workload["spec"]).count("resourceClaimTemplateName")
    assert said == 1  # in one template, however many groups are created from it


def test_the_group_of_a_job_has_the_claims() -> None:
    workload, made = job_groups(admitted(gang(shared="b,imex", imex="channel", b="x").build()))

    want = [by_template("b", "x"), by_template("imex")]
    assert made["spec"]["resourceClaims"] == want
    assert workload["spec"]["podGroupTemplates"][0]["resourceClaims"] == want


@pytest.mark.parametrize(
    "said",
    [
        pytest.param("imex=Bad_Name", id="no name of a template"),
        pytest.param("other=channel", id="an entry that is not shared"),
        pytest.param("imex", id="no template"),
        pytest.param("=", id="nothing"),
        pytest.param("a=b," * 1000, id="a long one"),
    ],
)
def test_a_forged_note_makes_no_claim_that_is_not_asked_for(said: str) -> None:
    job = admitted(gang().build())
    job["metadata"]["annotations"][ANNOTATION_CLAIM_TEMPLATES] = said

    assert "resourceClaims" not in job_groups(job)[1]["spec"]


def users_workload(*claims: Json) -> Json:
    template: Json = {"name": "t", "schedulingPolicy": {"gang": {"minCount": 1}}}
    template |= {"resourceClaims": list(claims)} if claims else {}
    return {"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}}


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        pytest.param([], [by_template("imex")], id="the template says nothing"),
        pytest.param([by_template("imex")], [by_template("imex")], id="the template says the same"),
        pytest.param(
            [by_name("x", "c")], [by_name("x", "c"), by_template("imex")], id="it has another entry"
        ),
        pytest.param(
            [by_name("imex", "c")], "different ResourceClaims for entry imex", id="it names a claim"
        ),
        pytest.param(
            [by_template(f"e{at}") for at in range(4)],
            "share 5 ResourceClaims",
            id="too many together",
        ),
    ],
)
def test_a_users_workload_and_the_annotation_together(
    claims: list[Json], want: list[Json] | str
) -> None:
    job = admitted(gang().build()) | {"kind": "Job"}
    job["metadata"] |= {"namespace": "default", "uid": "u"}
    workload = users_workload(*claims)

    def made() -> list[Json]:
        delegated = delegated_group(job, "pg-job-a", Delegation("t", ""), workload)
        return [*adapt(job_groups(job)[1:], workload), delegated]

    if isinstance(want, str):
        with pytest.raises(TemplateNotFoundError, match=want):
            made()
    else:
        assert [it["spec"]["resourceClaims"] for it in made()] == [want, want]


@pytest.mark.parametrize(
    "odd",
    [None, 3, "x", {}, [], [None], [3], [{}], [{"name": 3}], [{"name": "imex"}],
     [{"name": "imex", "resourceClaimName": []}],
     [{"name": "imex", "resourceClaimName": {}, "resourceClaimTemplateName": 3}],
     [{"name": "imex", "resourceClaimTemplateName": ["channel"]}]],
)  # fmt: skip
def test_claims_of_any_structure_are_survived(odd: Any) -> None:
    job = gang().build()
    job["spec"]["template"]["spec"]["resourceClaims"] = odd
    stored = admitted(gang().build())

    job_admission(job, Review("CREATE"))
    job_admission(job, Review("UPDATE", stored))
    job_admission(stored, Review("UPDATE", job | {"metadata": stored["metadata"]}))
    made = jobset().replicated_job("a", 1, workers()).build()
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["resourceClaims"] = odd
    jobset_admission(made, Review("CREATE"))
    jobset_groups(made)
