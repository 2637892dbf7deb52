"""The page about troubleshooting has a block for each state and mistake of the flows."""

from pathlib import Path

import pytest

from e2e.flows.scheduling.reasons.recorded import TROUBLESHOOTING, Recorded, joined
from e2e.flows.scheduling.reasons.test_mistakes import MISTAKES
from e2e.flows.scheduling.reasons.test_waiting import STATES

TITLES = [it.title for it in (*STATES, *MISTAKES)]
PAGE = """\
# Page

### One

Why.

```text
old
```

**What to do.** This.

### Two
"""


@pytest.mark.parametrize("title", TITLES)
def test_the_page_has_the_messages_and_what_to_do(title: str) -> None:
    page = TROUBLESHOOTING.path.read_text("utf-8")
    _, _, section = page.partition(f"\n### {title}\n")

    assert TROUBLESHOOTING.block(title)
    assert "**What to do.** " in section.partition("\n#")[0]


def test_no_messages_are_of_a_flow_that_is_not_there() -> None:
    page = TROUBLESHOOTING.path.read_text("utf-8")
    headings = [line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")]

    assert sorted(headings) == sorted(TITLES)


def test_a_record_replaces_the_block_and_keeps_what_is_around_it(tmp_path: Path) -> None:
    page = Recorded(tmp_path / "page.md")
    page.path.write_text(PAGE)

    page.check("One", "Pod: a\nPodGroup: a\nJob: b", record=True, server_kind="real")

    assert page.path.read_text() == PAGE.replace("old", "Pod, PodGroup: a\nJob: b")


def test_another_message_than_the_recorded_one_fails(tmp_path: Path) -> None:
    page = Recorded(tmp_path / "page.md")
    page.path.write_text(PAGE)

    page.check("One", "new", record=False, server_kind="existing")
    with pytest.raises(AssertionError):
        page.check("One", "new", record=False, server_kind="real")


@pytest.mark.parametrize("title", ["Two", "Three"])
def test_a_section_without_a_block_fails(tmp_path: Path, title: str) -> None:
    page = Recorded(tmp_path / "page.md")
    page.path.write_text(PAGE)

    with pytest.raises(pytest.fail.Exception, match=title):
        page.block(title)


def test_lines_are_joined_where_the_message_is_the_same() -> None:
    assert joined("Pod: R: a\nPodGroup: R: a\nJob t waits for: b") == (
        "Pod, PodGroup: R: a\nJob t waits for: b"
    )


def test_an_owner_does_not_repeat_the_message_of_its_group() -> None:
    told = "PodGroup g: False R: a: b\nJob t waits for: PodGroup g: a: b"

    assert joined(told) == "PodGroup g: False R: a: b\nJob t waits for: PodGroup g: ..."
    assert joined(joined(told)) == joined(told)


@pytest.mark.parametrize(
    "told",
    [
        pytest.param("PodGroup g: R: a\nJob t waits for: PodGroup g: b", id="another message"),
        pytest.param('Pod: R: Waiting for PodGroup "g": a\nPodGroup g: a', id="a pod's message"),
    ],
)
def test_a_message_that_differs_is_shown(told: str) -> None:
    assert joined(told) == told
