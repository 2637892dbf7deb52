"""Modules hidden during the import of others are importable again afterwards."""

import gc
import importlib
import os
import ssl
import sys

import pytest

from cli.config.lean_imports import trusting_nobody, uncollected, without


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> str:
    """A small module of the standard library, not loaded."""
    monkeypatch.delitem(sys.modules, "this", raising=False)
    return "this"


def test_a_package_cannot_be_imported_inside_and_can_afterwards(
    unloaded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with without(unloaded), pytest.raises(ModuleNotFoundError):
        importlib.import_module(unloaded)

    assert importlib.import_module(unloaded).__name__ == unloaded
    assert "Zen" in capsys.readouterr().out


def test_what_is_loaded_already_stays() -> None:
    with without("json"):
        assert importlib.import_module("json") is sys.modules["json"]


def test_a_failure_hides_nothing_for_good(unloaded: str) -> None:
    with pytest.raises(LookupError), without(unloaded):
        raise LookupError("inside")

    assert unloaded not in sys.modules


def test_a_package_that_does_not_exist_does_no_harm() -> None:
    with without("no_such_package"):
        pass

    assert "no_such_package" not in sys.modules


def test_authorities_are_trusted_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "given.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)

    with trusting_nobody():
        assert ssl.create_default_context().cert_store_stats()["x509"] == 0
        assert ssl.get_default_verify_paths().cafile is None

    assert os.environ["SSL_CERT_FILE"] == "given.pem"
    assert "SSL_CERT_DIR" not in os.environ


def test_garbage_is_collected_again_after_imports_even_if_they_fail() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()

    with pytest.raises(LookupError), uncollected():
        raise LookupError("inside")
    assert gc.isenabled()


def test_who_collects_no_garbage_is_left_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "isenabled", lambda: False)
    begun: list[str] = []
    monkeypatch.setattr(gc, "disable", lambda: None)
    monkeypatch.setattr(gc, "enable", lambda: begun.append("collecting"))

    with uncollected():
        pass

    assert begun == []
