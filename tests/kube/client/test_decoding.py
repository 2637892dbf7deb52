"""Null in JSON counts as absent, in every field of every decoded struct."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

import msgspec
import pytest
from msgspec import inspect

import controllers
import kube
import scheduler
import webhooks
from api.integration.kinds import SINGLE_GROUP_KINDS
from controllers.cache import capacity_requests, decoding
from controllers.cache.objects import COSCHEDULINGS
from kube.base.errors import from_status
from kube.client.decoding import Decoder
from tests.structure.graph import ROOT
from webhooks.cache.workloads import decode_workload

PACKAGES = (kube, scheduler, controllers, webhooks)

Path = tuple[str | int, ...]

MOMENT = "2026-01-02T03:04:05Z"


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def decoders() -> dict[str, Decoder[Any]]:
    """Return every decoder by module and struct; a struct has one decoder."""
    return {
        f"{module.__name__}.{value.form.__name__}": value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, Decoder) and value.form.__module__ == module.__name__
    }


DECODERS = decoders()


def example(form: inspect.Type) -> Any:
    """Return a value of the type with every field set."""
    match form:
        case inspect.StructType():
            return {field.encode_name: example(field.type) for field in form.fields}
        case inspect.DictType():
            return {"k": example(form.value_type)}
        case inspect.ListType() | inspect.VarTupleType():
            return [example(form.item_type)]
        case inspect.UnionType():
            return example(form.types[0])
        case inspect.CustomType() | inspect.RawType() | inspect.AnyType():
            return {"a": None, "b": [None]}
        case inspect.DateTimeType():
            return MOMENT
        case inspect.BoolType():
            return True
        case inspect.IntType() | inspect.FloatType():
            return 1
    assert isinstance(form, inspect.StrType), form
    return "1"


def fields_of(form: inspect.Type, at: Path = ()) -> Iterator[tuple[Path, inspect.Field]]:
    """Yield every field of every struct in `example(form)`, with its path."""
    match form:
        case inspect.StructType():
            for field in form.fields:
                yield (*at, field.encode_name), field
                yield from fields_of(field.type, (*at, field.encode_name))
        case inspect.DictType():
            yield from fields_of(form.value_type, (*at, "k"))
        case inspect.ListType() | inspect.VarTupleType():
            yield from fields_of(form.item_type, (*at, 0))
        case inspect.UnionType():
            yield from fields_of(form.types[0], at)


def written(value: Any, path: Path, **instead: Any) -> bytes:
    """Return JSON of the value without the path, or with the given `null` there."""
    changed = msgspec.json.decode(msgspec.json.encode(value))
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    del holder[path[-1]]
    if "null" in instead:
        holder[path[-1]] = instead["null"]
    return msgspec.json.encode(changed)


def plain(value: Any) -> Any:
    """Return the value with bytes in place of the undecoded parts."""
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def outcome(decode: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return plain(decode(data))
    except msgspec.ValidationError as error:
        return str(error)


@pytest.mark.parametrize("name", DECODERS)
def test_a_field_that_is_null_counts_as_absent(name: str) -> None:
    decode = DECODERS[name]
    form = inspect.type_info(decode.form)
    whole = example(form)
    for path, field in fields_of(form):
        if isinstance(field.type, inspect.RawType):
            continue  # It is decoded later, as null.
        absent = outcome(decode, written(whole, path))
        assert outcome(decode, written(whole, path, null=None)) == absent, path
        assert field.required is isinstance(absent, str), path


@pytest.mark.parametrize("name", DECODERS)
def test_null_counts_as_an_object_without_fields(name: str) -> None:
    decode = DECODERS[name]
    assert outcome(decode, b"null") == outcome(decode, b"{}")


def lists_of(form: inspect.Type, at: Path = ()) -> Iterator[Path]:
    """Yield the first element of every list in `example(form)`."""
    match form:
        case inspect.StructType():
            for field in form.fields:
                yield from lists_of(field.type, (*at, field.encode_name))
        case inspect.DictType():
            yield from lists_of(form.value_type, (*at, "k"))
        case inspect.ListType() | inspect.VarTupleType():
            yield (*at, 0)
            yield from lists_of(form.item_type, (*at, 0))
        case inspect.UnionType():
            yield from lists_of(form.types[0], at)


def replaced(value: Any, path: Path, instead: Any) -> bytes:
    """Return JSON of the value with another element in a list."""
    changed = msgspec.json.decode(msgspec.json.encode(value))
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = instead
    return msgspec.json.encode(changed)


@pytest.mark.parametrize("name", DECODERS)
def test_an_element_that_is_null_has_no_fields_or_is_rejected(name: str) -> None:
    """In Go null is the zero value too; text is the only type without one here."""
    decode = DECODERS[name]
    form = inspect.type_info(decode.form)
    whole = example(form)
    for path in lists_of(form):
        of_null = outcome(decode, replaced(whole, path, None))
        of_empty = outcome(decode, replaced(whole, path, {}))
        assert isinstance(of_null, str) or of_null == of_empty or None in elements(of_null), path


def elements(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for each in value.values():
            yield from elements(each)
    for each in value if isinstance(value, list) else ():
        yield None if each in (None, b"null") else each
        yield from elements(each)


def decoded_by_controllers() -> dict[str, tuple[Callable[[bytes], Any], type]]:
    """Return the decoders of controllers and webhooks, and the structs that they read."""
    raw = {name: value.form for name, value in vars(decoding).items() if isinstance(value, Decoder)}
    return {
        "pod": (decoding.decode_pod, raw["_pod"]),
        "group": (decoding.decode_group, raw["_group"]),
        "workload": (decoding.decode_workload, raw["_workload"]),
        "coscheduling": (
            partial(decoding.decode_coscheduling, COSCHEDULINGS),
            raw["_with_status"],
        ),
        "job": (decoding.decode_job, raw["_owner"]),
        "jobset": (decoding.decode_jobset, raw["_owner"]),
        "deployment": (
            partial(decoding.decode_single_group, SINGLE_GROUP_KINDS["Deployment"]),
            raw["_with_status"],
        ),
        "lws": (decoding.decode_lws, raw["_lws"]),
        "provisioning request": (
            capacity_requests.decode_request,
            capacity_requests._request.form,
        ),
        "workload of a webhook": (
            decode_workload,
            DECODERS["webhooks.cache.workloads._RawWorkload"].form,
        ),
    }


@pytest.mark.parametrize("kind", decoded_by_controllers())
def test_controllers_read_null_as_absent(kind: str) -> None:
    decode, struct = decoded_by_controllers()[kind]
    form = inspect.type_info(struct)
    for path, field in fields_of(form):
        if not field.required and not isinstance(field.type, inspect.RawType):
            data = written(example(form), path, null=None)
            assert plain(decode(data)) == plain(decode(written(example(form), path))), path


@pytest.mark.parametrize("kind", decoded_by_controllers())
def test_controllers_read_or_reject_an_element_that_is_null(kind: str) -> None:
    decode, struct = decoded_by_controllers()[kind]
    form = inspect.type_info(struct)
    whole = example(form)
    for path in lists_of(form):
        with suppress(msgspec.DecodeError):
            decode(replaced(whole, path, None))


def test_parts_that_are_not_decoded_keep_what_is_null_in_them() -> None:
    class Form(msgspec.Struct):
        items: list[int] = []
        kept: msgspec.Raw = msgspec.Raw()

    found = Decoder(Form)(b'{"items": null, "kept": {"a": null, "b": [1, null]}}')
    assert (found.items, bytes(found.kept)) == ([], b'{"a": null, "b": [1, null]}')


def test_what_is_wrong_besides_is_named_with_its_path() -> None:
    class Form(msgspec.Struct):
        items: list[int] = []
        count: int = 0

    with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$.count`"):
        Decoder(Form)(b'{"items": null, "count": "x"}')


@pytest.mark.parametrize("data", [b"[]", b'"x"', b"1", b'{"items": 1}', b'{"items": [null]}'])
def test_a_value_of_another_type_is_rejected(data: bytes) -> None:
    class Form(msgspec.Struct):
        items: list[int] = []

    with pytest.raises(msgspec.ValidationError):
        Decoder(Form)(data)


OWN_FORMATS = {
    "kube/client/decoding.py": "is the decoder",
    "kube/base/errors.py": "every field of a Status may be null",
    "kube/credentials/kubeconfig.py": "is YAML, in which every field may be null",
    "kube/credentials/plugins.py": "is an ExecCredential, in which every field may be null",
    "kube/base/settings.py": "is the configuration file",
    "scheduler/support/config.py": "is the configuration file",
    "scheduler/binding/reservations.py": "are intents that the scheduler writes",
    "scheduler/snapshot/snapshot.py": "is a file that the scheduler writes",
    "scheduler/decoding/pod_terms.py": "is kept in memory",
}
OF_A_MODULE = re.compile(r"\w+(: Final)? = Decoder\(\w+(, strict=False)?\)")
WITHOUT_A_STRUCT = re.compile(r"dict\[str, Any\]|type=str\b|msgspec.json.decode\([^=]*$")
STRUCTS = re.compile(r"msgspec\.(json\.|msgpack\.|yaml\.)?(decode|convert)\(|\bDecoder\(")


def test_objects_are_decoded_by_the_decoder_that_takes_null() -> None:
    """A decoder is a module's variable, where the tests above find it."""
    otherwise = {
        name
        for package in PACKAGES
        for path in (ROOT / package.__name__).rglob("*.py")
        if (name := str(path.relative_to(ROOT))) not in OWN_FORMATS
        for line in path.read_text().splitlines()
        if STRUCTS.search(line)
        and not WITHOUT_A_STRUCT.search(line)
        and not OF_A_MODULE.fullmatch(line)
    }
    assert otherwise == set()


def test_text_that_is_no_utf_8_is_rejected_like_other_bytes() -> None:
    """Clients of the webhook may send any bytes, and proxies respond in any encoding."""
    with pytest.raises(msgspec.DecodeError, match="invalid start byte"):
        Decoder(_Text)(b'{"text": "\xbc"}')

    error = from_status(b'{"message": "\xbc"}', method="GET", status=500)

    assert "message" in str(error)


class _Text(msgspec.Struct):
    text: str = ""
