import pytest

from localcluster.base.errors import StatusError
from localcluster.base.resources import CONFIG_MAPS, PODS
from localcluster.base.selectors import from_object, parse_fields, parse_labels


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", "abcd", id="nothing selects everything"),
        pytest.param("app=web", "a", id="equality"),
        pytest.param("app==web", "a", id="double equality"),
        pytest.param("app!=web", "bcd", id="inequality takes objects without the label"),
        pytest.param("app in (web, db)", "ab", id="in"),
        pytest.param("app notin (web,db)", "cd", id="notin takes objects without the label"),
        pytest.param("app", "ab", id="exists"),
        pytest.param("!app", "cd", id="does not exist"),
        pytest.param("app,x.io/tier in (front)", "a", id="all conditions hold"),
        pytest.param("size>2", "d", id="greater"),
        pytest.param("size<9", "cd", id="less"),
        pytest.param("empty=", "c", id="an empty value"),
    ],
)
def test_label_selectors(text: str, want: str) -> None:
    objects = {
        "a": {"app": "web", "x.io/tier": "front"},
        "b": {"app": "db"},
        "c": {"size": "2", "empty": ""},
        "d": {"size": "5"},
    }

    assert "".join(name for name in objects if parse_labels(text).matches(objects[name])) == want


@pytest.mark.parametrize("text", ["a===b", "a in b", "in (", "a=b=c", "a b"])
def test_a_bad_label_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_labels(text)

    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def test_selector_objects_mean_the_same() -> None:
    selector = from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["back"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }
    )

    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "tier": "back"})
    assert not selector.matches({"app": "web", "old": ""})


def test_field_selectors_read_fields_of_the_kind() -> None:
    bound = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    loose = {"metadata": {"name": "q"}, "spec": {}, "status": {"phase": "Pending"}}

    assert parse_fields(PODS, "spec.nodeName=n1,status.phase!=Failed").matches(bound)
    assert parse_fields(PODS, "spec.nodeName=").matches(loose)
    assert not parse_fields(PODS, "spec.nodeName!=").matches(loose)
    assert parse_fields(PODS, "spec.hostNetwork=false").matches(loose)


def test_fields_that_nobody_indexes_are_a_bad_request() -> None:
    with pytest.raises(StatusError, match=r"field label not supported: data\.k"):
        parse_fields(CONFIG_MAPS, "data.k=v")
