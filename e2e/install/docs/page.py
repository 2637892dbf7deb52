"""The blocks of a page that a reader must run.

`bash` is a script; in `console` a line after `$ ` is a command, followed by its output. Every block
names its language, so that none is run or omitted by accident. A block that cannot be run has a
line of the form of `NOT_RUN` right above it, visible to the reader.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

NOT_RUN = re.compile(r"\*Not run by the tests: (?P<why>[^*]+)\*")
COMMANDS = ("bash", "console")
OTHERS = ("text", "yaml", "json")
_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\S*)")
_HEADING = re.compile(r"#+ (?P<title>.+)")
_PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Command:
    """A script, and its output on the page; None if the page shows none."""

    script: str
    shown: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A block; `where` is `page:line`, `heading` the one above, `not_run` the reason or ""."""

    where: str
    heading: str
    commands: tuple[Command, ...]
    not_run: str = ""


@dataclass(frozen=True, slots=True)
class _Fence:
    """The lines between two fences, and the last non-empty line before them."""

    where: str
    heading: str
    before: str
    language: str
    lines: Sequence[str]


def blocks(path: Path) -> list[Block]:
    """Return the commands of a page in order. Raises ValueError for a block without valid marks."""
    return [
        Block(fence.where, fence.heading, tuple(_commands(fence)), _reason(fence))
        for fence in _fences(path)
        if _is_for_readers_to_run(fence)
    ]


def _fences(path: Path) -> Iterator[_Fence]:
    heading, before = "", ""
    numbered = enumerate(path.read_text("utf-8").splitlines(), 1)
    for number, line in numbered:
        if opened := _FENCE.fullmatch(line):
            inside: list[str] = []
            for _, each in numbered:
                if each.strip() == "```":
                    break
                inside.append(each.removeprefix(opened["indent"]))
            else:
                raise ValueError(f"{path.name}:{number}: a block without an end")
            yield _Fence(f"{path.name}:{number}", heading, before, opened["language"], inside)
            before = ""
        elif title := _HEADING.fullmatch(line):
            heading, before = title["title"], ""
        elif line.strip():
            before = line.strip()


def _is_for_readers_to_run(fence: _Fence) -> bool:
    if fence.language in COMMANDS:
        return True
    if fence.language not in OTHERS:
        known = ", ".join((*COMMANDS, *OTHERS))
        raise ValueError(f"{fence.where}: the language of a block is one of {known}")
    if any(line.startswith(_PROMPT) for line in fence.lines):
        raise ValueError(f"{fence.where}: a block with commands is `console`")
    return False


def _reason(fence: _Fence) -> str:
    said = NOT_RUN.fullmatch(fence.before)
    return said["why"].strip() if said else ""


def _commands(fence: _Fence) -> Iterator[Command]:
    if fence.language == "bash":
        yield Command("\n".join(fence.lines))
        return
    starts = [number for number, line in enumerate(fence.lines) if line.startswith(_PROMPT)]
    if not starts or starts[0] != 0:
        raise ValueError(f"{fence.where}: a `console` block begins with `$ ` and a command")
    for start, end in pairwise([*starts, len(fence.lines)]):
        yield _command(fence.lines[start:end])


def _command(lines: Sequence[str]) -> Command:
    """Parse a command; it continues on the next line after a backslash."""
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    script = "\n".join(lines[: last + 1]).removeprefix(_PROMPT)
    return Command(script, "\n".join(lines[last + 1 :]))
