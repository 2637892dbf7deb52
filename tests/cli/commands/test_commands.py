"""The table of commands matches the commands' own help texts."""

import inspect

import pytest
import structlog
import typer

from cli import commands
from cli.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_summary_is_the_first_line_of_the_help(name: str) -> None:
    command = COMMANDS[name]
    found = command.load()
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)

    assert str(text).partition("\n")[0] == command.summary


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_its_own_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main([name, "--help"]) == 0

    said = capsys.readouterr().out
    assert f" {name} [OPTIONS]" in said
    assert COMMANDS[name].summary.split()[0] in said


def test_the_list_has_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["--help"]) == 0

    said = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name} " not in said] == []


def test_options_before_the_command_do_not_hide_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["--no-such-option", "gc"]) == 2

    assert "--no-such-option" in capsys.readouterr().err


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["explian"]) == 2

    assert "explain" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_logs_what_goes_wrong_to_standard_error(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Programs read its standard output."""
    COMMANDS[name].load()
    structlog.get_logger().warning("a watch ended")
    structlog.get_logger().info("task held the event loop too long")

    said = capsys.readouterr()
    assert said.out == ""
    assert "a watch ended" in said.err
    assert "task held the event loop too long" not in said.err
