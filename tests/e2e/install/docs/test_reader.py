"""Failures are reported with their location: wrong commands, wrong output, forgotten blocks."""

from pathlib import Path

import pytest

from e2e.install.docs.reader import Reader

PAGE = """\
# One

```console
$ echo a; cat examples/job-gang.yaml | head -2
a
...
apiVersion: batch/v1
$ echo "$KUBECONFIG"
the-kubeconfig
```

## Two

```bash
echo kept > file
test -e file
```

## Broken

```bash
false | true
```

## Other words

```console
$ echo error >&2
success
```

## Left out

*Not run by the tests: it would end them.*

```bash
kill -9 $PPID
```
"""


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return Reader(str(page), Path("the-kubeconfig"), tmp_path)


async def test_commands_run_in_a_copy_of_the_checkout(reader: Reader, tmp_path: Path) -> None:
    await reader.follow("One")
    await reader.follow("Two")
    await reader.follow("Left out")

    assert (tmp_path / "checkout" / "file").read_text() == "kept\n"


@pytest.mark.parametrize(
    ("heading", "problem"),
    [
        pytest.param("Broken", r"page.md:21: false \| true\n+ended with 1", id="it fails"),
        pytest.param("Other words", r"page.md:27: (.|\n)*'success' is shown", id="other output"),
        pytest.param("Three", "no heading 'Three' with commands", id="no such heading"),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(
    reader: Reader, heading: str, problem: str
) -> None:
    with pytest.raises(AssertionError, match=problem):
        await reader.follow(heading)


async def test_a_block_that_is_not_run_is_named(reader: Reader) -> None:
    await reader.follow("One")
    await reader.follow("Two")

    with pytest.raises(AssertionError, match=r"page.md:21, below 'Broken'") as failed:
        reader.finish()
    assert "Left out" not in str(failed.value)


async def test_what_another_test_runs_is_not_forgotten(reader: Reader) -> None:
    for heading in ("One", "Two"):
        await reader.follow(heading)

    reader.finish(elsewhere=("Broken", "Other words"))
    with pytest.raises(AssertionError, match="no such headings"):
        reader.finish(elsewhere=("Broken", "Other words", "Gone"))
