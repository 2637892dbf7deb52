"""Writes the CustomResourceDefinitions from the models: `python -m api.crd DIRECTORY`.

The output depends on the models alone, so a difference to the committed files means they are
stale.
"""

from api.crd.definitions import DEFINED, crd, write

__all__ = ["DEFINED", "crd", "write"]
