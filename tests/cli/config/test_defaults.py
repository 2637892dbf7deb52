"""Defaults of the configuration have the type that the same value in a file would have."""

from collections.abc import Iterator

import msgspec
import pytest

from cli.config.config import File
from kube.base.settings import Section


def sections(section: type[Section]) -> Iterator[type[Section]]:
    yield section
    for below in section.__subclasses__():
        yield from sections(below)


@pytest.mark.parametrize("section", list(sections(Section)))
def test_a_default_stays_the_same_through_json(section: type[Section]) -> None:
    """`60` for a number of seconds would be `60.0` after a snapshot is read again."""
    for field in msgspec.structs.fields(section):
        default = field.default
        if isinstance(default, int | float):
            read = msgspec.convert(default, field.type)
            assert type(read) is type(default), f"{section.__name__}.{field.name}"


def test_the_sections_are_found() -> None:
    assert File in set(sections(Section))
    assert len(list(sections(Section))) > 10
