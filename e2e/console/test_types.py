"""The page's modules use the messages of the server as its OpenAPI document describes them."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest

from console.serving.server import Server

ROOT = Path(__file__).parents[2]
TYPES = Path(__file__).parent / "types"
FOLDER = ROOT / ".cache" / "console-types"


@pytest.fixture(scope="module")
def folder() -> Path:
    """A folder two levels below the project with TypeScript and the types of the API."""
    if shutil.which("npm") is None and os.environ.get("MUSTER_REQUIRE_REAL") != "1":
        pytest.skip("needs npm")
    FOLDER.mkdir(parents=True, exist_ok=True)
    same = _same(TYPES / "package-lock.json", FOLDER / "package-lock.json")
    shutil.copytree(TYPES, FOLDER, dirs_exist_ok=True)
    if not same or not (FOLDER / "node_modules").exists():
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"])
    parts = {"manifest": Mock(), "what_if": Mock(), "fit": Mock()}
    document = Server(Mock(), Mock(), Mock(), Mock(), **parts).routes().openapi()
    (FOLDER / "openapi.json").write_text(json.dumps(document))
    _run(["npx", "openapi-typescript", "openapi.json", "-o", "openapi.d.ts"])
    return FOLDER


@pytest.mark.long
def test_the_page_uses_the_fields_that_the_api_has(folder: Path) -> None:
    done = _tsc(folder, "tsconfig.json")

    assert done.returncode == 0, done.stdout


@pytest.mark.long
def test_a_wrong_field_is_found(folder: Path) -> None:
    (folder / "wrong.js").write_text(
        "/** @param {Message<'Waiting'>} row */\nexport const wrong = (row) => row.sentences;\n"
    )
    written = json.loads((folder / "tsconfig.json").read_text())
    (folder / "wrong.json").write_text(json.dumps({**written, "include": ["wrong.js", "*.d.ts"]}))

    done = _tsc(folder, "wrong.json")

    assert "Property 'sentences' does not exist" in done.stdout


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.read_bytes() == other.read_bytes()


def _tsc(folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["npx", "tsc", "-p", config], cwd=folder, capture_output=True, text=True, check=False
    )


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
