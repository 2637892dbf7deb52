"""The life cycle of definitions: established, served, changed and withdrawn."""

import copy
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.base.errors import StatusError, forbidden
from localcluster.base.hooks import AdmissionRequest, WriteOptions
from localcluster.tests.api_server import ApiServer, make_crd, make_widget, until

CRDS = resources.CRDS.collection


def stored_crd(apiserver: ApiServer, plural: str = "widgets") -> dict[str, Any]:
    stored = apiserver.store.get(CRDS, ("", f"{plural}.t.muster.dev"))
    assert stored is not None
    return stored.obj


def causes(error: StatusError) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (error.details or {})["causes"]
    return found


def conditions(crd: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one["reason"], one["message"])
        for one in crd["status"]["conditions"] or ()
    }


async def test_a_definition_is_not_established_in_the_answer_to_its_creation(
    apiserver: ApiServer,
) -> None:
    crd = await apiserver.add(resources.CRDS, make_crd())

    assert crd["status"] == {
        "acceptedNames": {"kind": "", "plural": ""},
        "conditions": None,
        "storedVersions": ["v1"],
    }
    assert crd["spec"]["names"]["singular"] == "widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


async def test_a_definition_is_established_and_says_its_names(apiserver: ApiServer) -> None:
    await apiserver.define(make_crd())

    crd = stored_crd(apiserver)
    assert conditions(crd) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert crd["status"]["acceptedNames"] == crd["spec"]["names"]


async def test_a_kind_is_served_with_all_that_its_definition_says(apiserver: ApiServer) -> None:
    crd = make_crd()
    crd["spec"]["names"] |= {"shortNames": ["wd"], "categories": ["muster"]}
    crd["spec"]["versions"][0] |= {
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
        },
        "selectableFields": [{"jsonPath": ".spec.a"}],
    }

    info = await apiserver.define(crd)

    assert (info.short_names, info.categories) == (("wd",), ("muster",))
    assert info.subresources == {"status", "scale"}
    assert info.scale is not None
    assert info.scale.spec_replicas == ".spec.n"
    assert [column.json_path for column in info.columns] == [".spec.a"]
    assert info.selectable_fields == ("spec.a",)
    assert info.custom


async def test_names_that_another_definition_has_are_not_accepted(apiserver: ApiServer) -> None:
    await apiserver.define(make_crd())

    await apiserver.add(resources.CRDS, make_crd("gadgets"))
    await until(lambda: bool(stored_crd(apiserver, "gadgets")["status"]["conditions"]))

    assert conditions(stored_crd(apiserver, "gadgets")) == {
        "NamesAccepted": ("False", "ListKindConflict", '"WidgetList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert apiserver.registry.lookup("t.muster.dev", "v1", "gadgets") is None


async def test_objects_are_pruned_and_defaulted(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())

    widget = await apiserver.add(info, make_widget(z=1), "default")

    assert widget["spec"] == {"a": "x"}


async def test_unknown_fields_are_told_or_refused_as_asked(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())
    warnings: list[str] = []

    warn = WriteOptions(field_validation="Warn")
    await apiserver.api.create(info, make_widget(z=1), "default", options=warn, warnings=warnings)
    strict = WriteOptions(field_validation="Strict")
    with pytest.raises(StatusError) as refused:
        await apiserver.api.create(info, make_widget("v", z=1), "default", options=strict)

    assert warnings == ['unknown field "spec.z"']
    assert refused.value.code == 400
    assert refused.value.message == 'strict decoding error: unknown field "spec.z"'


async def test_a_breach_of_the_schema_is_refused_with_its_field(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())

    with pytest.raises(StatusError) as refused:
        await apiserver.add(info, make_widget(n=0), "default")

    assert refused.value.code == 422
    assert causes(refused.value) == [
        {
            "field": "spec.n",
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 0: spec.n in body should be greater than or equal to 1",
        }
    ]


async def test_a_changed_schema_counts_from_then_on_but_not_for_what_stays(
    apiserver: ApiServer,
) -> None:
    info = await apiserver.define(make_crd())
    await apiserver.add(info, make_widget(n=1), "default")
    changed = copy.deepcopy(stored_crd(apiserver))
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["n"]["minimum"] = 5

    await apiserver.api.update(resources.CRDS, changed)
    await until(lambda: apiserver.custom.validate(info, make_widget("v", n=1), None) != [])
    labelled = await apiserver.api.patch(info, "w", {"metadata": {"labels": {"k": "v"}}}, "default")

    assert labelled.obj["spec"]["n"] == 1
    with pytest.raises(StatusError):
        await apiserver.api.patch(info, "w", {"spec": {"n": 2}}, "default")


async def test_a_version_that_is_no_longer_served_is_gone(apiserver: ApiServer) -> None:
    await apiserver.define(make_crd())
    changed = copy.deepcopy(stored_crd(apiserver))
    changed["spec"]["versions"][0]["served"] = False

    await apiserver.api.update(resources.CRDS, changed)

    await until(lambda: apiserver.registry.lookup("t.muster.dev", "v1", "widgets") is None)


async def test_a_deleted_definition_takes_its_objects_along(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())
    await apiserver.add(info, make_widget(), "default")

    await apiserver.api.delete(resources.CRDS, "widgets.t.muster.dev")
    await until(lambda: apiserver.store.get(CRDS, ("", "widgets.t.muster.dev")) is None)

    assert apiserver.store.get(info.collection, ("default", "w")) is None
    assert apiserver.registry.lookup("t.muster.dev", "v1", "widgets") is None


async def test_a_deleted_definition_waits_for_finalizers_of_its_objects(
    apiserver: ApiServer,
) -> None:
    info = await apiserver.define(make_crd())
    widget = make_widget()
    widget["metadata"]["finalizers"] = ["muster.dev/hold"]
    await apiserver.add(info, widget, "default")

    await apiserver.api.delete(resources.CRDS, "widgets.t.muster.dev")
    await until(
        lambda: (
            "deletionTimestamp"
            in apiserver.store.collection(info.collection).objects["default", "w"].obj["metadata"]
        )
    )
    assert apiserver.store.get(CRDS, ("", "widgets.t.muster.dev")) is not None

    await apiserver.api.patch(info, "w", {"metadata": {"finalizers": None}}, "default")
    await until(lambda: apiserver.store.get(CRDS, ("", "widgets.t.muster.dev")) is None)


async def test_two_definitions_that_leave_at_once_both_go(apiserver: ApiServer) -> None:
    widgets = await apiserver.define(make_crd())
    gadgets = await apiserver.define(make_crd("gadgets", "Gadget"))
    await apiserver.add(widgets, make_widget(), "default")
    await apiserver.add(gadgets, make_widget() | {"kind": "Gadget"}, "default")

    for name in ("widgets.t.muster.dev", "gadgets.t.muster.dev"):
        await apiserver.api.delete(resources.CRDS, name)

    await until(lambda: not apiserver.store.collection(CRDS).objects)


async def test_objects_of_a_kind_that_is_no_longer_served_go_with_it(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())
    await apiserver.add(info, make_widget(), "default")
    changed = copy.deepcopy(stored_crd(apiserver))
    changed["spec"]["versions"][0]["served"] = False
    await apiserver.api.update(resources.CRDS, changed)
    await until(lambda: apiserver.registry.lookup("t.muster.dev", "v1", "widgets") is None)

    await apiserver.api.delete(resources.CRDS, "widgets.t.muster.dev")

    await until(lambda: not apiserver.store.collection(CRDS).objects)


class RefusesOnce:
    """Admission step that rejects the first deletion of a widget."""

    def __init__(self) -> None:
        self.asked = 0

    async def mutate(self, request: AdmissionRequest) -> None: ...

    async def validate(self, request: AdmissionRequest) -> None:
        if request.operation == "DELETE" and request.info.plural == "widgets":
            self.asked += 1
            if self.asked == 1:
                raise forbidden(request.info, request.name, "not yet")


async def test_a_refused_deletion_of_an_object_is_tried_again(apiserver: ApiServer) -> None:
    info = await apiserver.define(make_crd())
    await apiserver.add(info, make_widget(), "default")
    step = RefusesOnce()
    apiserver.api.admission.append(step)

    await apiserver.api.delete(resources.CRDS, "widgets.t.muster.dev")

    await until(lambda: not apiserver.store.collection(CRDS).objects)
    assert step.asked == 2


def without(crd: dict[str, Any], *path: str) -> dict[str, Any]:
    place: Any = crd
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return crd


def with_version(**fields: Any) -> dict[str, Any]:
    crd = make_crd()
    crd["spec"]["versions"][0] |= fields
    return crd


@pytest.mark.parametrize(
    ("crd", "field", "message"),
    [
        pytest.param(
            make_crd(group="other.dev"),
            "metadata.name",
            'Invalid value: "widgets.t.muster.dev": must be spec.names.plural+"."+spec.group',
            id="a name that is not plural and group",
        ),
        pytest.param(
            make_crd(scope="Foo"),
            "spec.scope",
            'Unsupported value: "Foo": supported values: "Cluster", "Namespaced"',
            id="an unknown scope",
        ),
        pytest.param(
            with_version(storage=False),
            "status.storedVersions",
            "Invalid value: null: must have at least one stored version",
            id="no stored version",
        ),
        pytest.param(
            without(make_crd(), "spec", "names", "kind"),
            "spec.names.kind",
            "Required value",
            id="no kind",
        ),
        pytest.param(
            make_crd(conversion={"strategy": "Sometimes"}),
            "spec.conversion.strategy",
            'Unsupported value: "Sometimes": supported values: "None", "Webhook"',
            id="an unknown conversion",
        ),
        pytest.param(
            with_version(schema=None),
            "spec.versions[0].schema.openAPIV3Schema",
            "Required value: schemas are required",
            id="no schema",
        ),
        pytest.param(
            with_version(additionalPrinterColumns=[{"name": "A", "type": "text"}]),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath",
            "Required value",
            id="a column without a path",
        ),
        pytest.param(
            with_version(subresources={"scale": {"specReplicasPath": ".status.n"}}),
            "spec.versions[0].subresources.scale.specReplicasPath",
            'Invalid value: ".status.n": should be a json path under .spec',
            id="a scale outside of spec",
        ),
    ],
)
async def test_a_wrong_definition_is_refused(
    apiserver: ApiServer, crd: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(StatusError) as refused:
        await apiserver.add(resources.CRDS, crd)

    found = {cause["field"]: cause["message"] for cause in causes(refused.value)}
    assert found.get(field) == message


async def test_scope_and_kind_of_an_established_definition_stay(apiserver: ApiServer) -> None:
    await apiserver.define(make_crd())
    changed = copy.deepcopy(stored_crd(apiserver))
    changed["spec"]["scope"] = "Cluster"

    with pytest.raises(StatusError) as refused:
        await apiserver.api.update(resources.CRDS, changed)

    assert [cause["field"] for cause in causes(refused.value)] == ["spec.scope"]
