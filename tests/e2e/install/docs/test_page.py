"""The parser of a page's commands and their output."""

from pathlib import Path

import pytest

from e2e.install.docs.page import Block, Command, blocks

PAGE = """\
# Title

```yaml
kind: Job
```

Then:

```bash
kubectl apply -f -
kubectl get pods
```

## Below

*Not run by the tests: it needs a registry.*

```bash
docker push REGISTRY/muster
```

1. In a list:
   ```console
   $ kubectl wait \\
       --for=create pod/a
   pod/a condition met
   $ kubectl delete pod a

   $ muster tree
   ```
"""


def found(tmp_path: Path, text: str) -> list[Block]:
    path = tmp_path / "page.md"
    path.write_text(text)
    return blocks(path)


def test_commands_are_told_from_what_they_say(tmp_path: Path) -> None:
    script, refused, shown = found(tmp_path, PAGE)

    assert script == Block("page.md:9", "Title", (Command("kubectl apply -f -\nkubectl get pods"),))
    assert (refused.heading, refused.not_run) == ("Below", "it needs a registry.")
    assert shown.commands == (
        Command("kubectl wait \\\n    --for=create pod/a", "pod/a condition met"),
        Command("kubectl delete pod a", ""),
        Command("muster tree", ""),
    )
    assert shown.not_run == ""


def test_the_mark_is_about_the_block_right_below_it(tmp_path: Path) -> None:
    text = "*Not run by the tests: slow.*\n\nBut this one:\n\n```bash\ntrue\n```\n"

    assert [block.not_run for block in found(tmp_path, text)] == [""]
    twice = "*Not run by the tests: slow.*\n\n```bash\na\n```\n\n```bash\nb\n```\n"
    assert [block.not_run for block in found(tmp_path, twice)] == ["slow.", ""]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("```\nkubectl\n```\n", "the language of a block is one of", id="none"),
        pytest.param("```sh\nkubectl\n```\n", "the language of a block is one of", id="another"),
        pytest.param("```text\n$ kubectl\n```\n", "a block with commands is `console`", id="text"),
        pytest.param("```console\nkubectl\n```\n", "begins with `\\$ `", id="no prompt"),
        pytest.param("```bash\ntrue\n", "page.md:1: a block without an end", id="no end"),
    ],
)
def test_a_block_that_could_be_missed_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        found(tmp_path, text)
