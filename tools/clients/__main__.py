"""Entry point of `python -m tools.clients DIRECTORY`."""

import sys
from pathlib import Path

from tools.clients.go_types import go_deepcopy, go_types
from tools.clients.python_models import python_models
from tools.clients.structs import structs

FILES = {
    "python/muster_client/models.py": python_models,
    "go/scheduling/v1alpha3/types.go": go_types,
    "go/scheduling/v1alpha3/zz_generated.deepcopy.go": go_deepcopy,
}


def write(directory: Path) -> None:
    """Write the generated files of all clients. Raises OSError."""
    for name, source in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(structs()), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
