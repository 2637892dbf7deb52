"""Generator of the CustomResourceDefinitions: `python -m api.crd DIRECTORY`.

The output depends only on the models, so a difference from the committed files means that they are
stale.
"""

from api.crd.definitions import DEFINED, crd, write

__all__ = ["DEFINED", "crd", "write"]
