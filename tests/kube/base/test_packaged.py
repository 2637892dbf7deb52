"""The manifests of a package, read by libyaml or by the parser in Python."""

from pathlib import Path

import pytest
import yaml

from kube.base.packaged import yaml_objects

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("folder", ["crd", "base", "webhook", "console"])
def test_both_parsers_read_the_same(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = list(yaml_objects(ROOT / "manifests" / folder))
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)

    assert quick == list(yaml_objects(ROOT / "manifests" / folder))
    assert quick


def test_files_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("n: 2\n---\nn: 3\n")
    (tmp_path / "a.yaml").write_text("n: 1\n")
    (tmp_path / "c.txt").write_text("n: 4\n")

    assert [obj["n"] for obj in yaml_objects(tmp_path)] == [1, 2, 3]
