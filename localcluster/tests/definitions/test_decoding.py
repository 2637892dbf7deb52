"""Decoding of built-in kinds as by kube-apiserver 1.36.3, whose responses were recorded."""

import copy
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.hooks import WriteOptions
from localcluster.base.resources import ResourceInfo
from localcluster.tests.api_server import ApiServer, make_crd


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {"metadata": {"name": "a"}, "spec": {"template": template, **spec}}


def job_of(pod: dict[str, Any]) -> dict[str, Any]:
    return job(template={"spec": pod})


def hook(**fields: Any) -> dict[str, Any]:
    kind = "ValidatingWebhookConfiguration"
    return {"kind": kind, "metadata": {"name": "a"}, "webhooks": [fields]}


UNMARSHAL = "json: cannot unmarshal "
QUANTITY = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


@pytest.mark.parametrize(
    ("info", "obj", "words"),
    [
        pytest.param(
            resources.JOBS,
            job(parallelism="x"),
            UNMARSHAL + "string into Go struct field JobSpec.spec.parallelism of type int32",
            id="a text for a number",
        ),
        pytest.param(
            resources.JOBS,
            job(parallelism=1.5),
            UNMARSHAL + "number 1.5 into Go struct field JobSpec.spec.parallelism of type int32",
            id="a fraction",
        ),
        pytest.param(
            resources.JOBS,
            job(parallelism=5000000000),
            UNMARSHAL
            + "number 5000000000 into Go struct field JobSpec.spec.parallelism of type int32",
            id="a number out of range",
        ),
        pytest.param(
            resources.JOBS,
            {"metadata": {"name": "a"}, "spec": []},
            UNMARSHAL + "array into Go struct field Job.spec of type v1.JobSpec",
            id="a list for an object",
        ),
        pytest.param(
            resources.JOBS,
            job_of({"containers": [{"name": 1}]}),
            UNMARSHAL + "number into Go struct field"
            " Container.spec.template.spec.containers.name of type string",
            id="a number for a text",
        ),
        pytest.param(
            resources.JOBS,
            job_of({"containers": [{"name": "a", "resources": {"requests": {"cpu": "abc"}}}]}),
            QUANTITY,
            id="a wrong quantity",
        ),
        pytest.param(
            resources.NODES,
            {"metadata": {"name": "a"}, "status": {"capacity": {"cpu": "x"}}},
            QUANTITY,
            id="a wrong capacity",
        ),
        pytest.param(
            resources.CONFIG_MAPS,
            {"metadata": {"name": "a"}, "data": {"a": 1}},
            UNMARSHAL + "number into Go struct field ConfigMap.data of type string",
            id="a number in a map of texts",
        ),
        pytest.param(
            resources.CRDS,
            make_crd(versions="x"),
            UNMARSHAL + "string into Go struct field CustomResourceDefinitionSpec.spec.versions"
            " of type []v1.CustomResourceDefinitionVersion",
            id="a text for the versions of a definition",
        ),
        pytest.param(
            resources.VALIDATING_WEBHOOKS,
            hook(name=1),
            UNMARSHAL + "number into Go struct field ValidatingWebhook.webhooks.name"
            " of type string",
            id="a number for a webhook's name",
        ),
    ],
)
async def test_an_unreadable_object_is_a_bad_request(
    apiserver: ApiServer, info: ResourceInfo, obj: dict[str, Any], words: str
) -> None:
    namespace = "default" if info.namespaced else ""

    with pytest.raises(StatusError) as refused:
        await apiserver.api.create(info, obj, namespace)

    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert refused.value.message == (
        f'{info.kind} in version "v1" cannot be handled as a {info.kind}: {words}'
    )


async def test_unknown_fields_are_named_by_their_paths_and_dropped(apiserver: ApiServer) -> None:
    said = job(paralelism=3)
    said["spec"]["template"]["spec"]["containers"][0]["surprise"] = 1
    warnings: list[str] = []

    warn = WriteOptions(field_validation="Warn")
    stored = await apiserver.api.create(
        resources.JOBS, said, "default", options=warn, warnings=warnings
    )

    assert warnings == [
        'unknown field "spec.paralelism"',
        'unknown field "spec.template.spec.containers[0].surprise"',
    ]
    assert "paralelism" not in stored.obj["spec"]
    assert "surprise" not in stored.obj["spec"]["template"]["spec"]["containers"][0]


async def test_unknown_words_of_a_schema_are_named_by_their_paths(apiserver: ApiServer) -> None:
    crd = copy.deepcopy(make_crd())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["foo"] = 1
    schema["properties"]["spec"]["properties"]["a"]["foo"] = 2
    strict = WriteOptions(field_validation="Strict")

    with pytest.raises(StatusError) as refused:
        await apiserver.api.create(resources.CRDS, crd, options=strict)

    at, kind = "spec.versions[0].schema.openAPIV3Schema", "CustomResourceDefinition"
    assert refused.value.message == (
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error:'
        f' unknown field "{at}.foo", unknown field "{at}.properties.spec.properties.a.foo"'
    )


async def test_nulls_are_read_as_not_given(apiserver: ApiServer) -> None:
    stored = await apiserver.api.create(resources.JOBS, job(parallelism=None), "default")

    assert stored.obj["spec"]["parallelism"] == 1
