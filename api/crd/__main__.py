"""Entry point of `python -m api.crd DIRECTORY`."""

import sys
from pathlib import Path

from api.crd import write

write(Path(sys.argv[1]))
