"""Adapters, one file each. A new one is a class here and a line in `ADAPTERS`."""

from collections.abc import Mapping
from typing import Final

from conformance.adapters.base import Adapter
from conformance.adapters.coscheduling import Coscheduling
from conformance.adapters.kai import Kai
from conformance.adapters.kueue import Kueue
from conformance.adapters.muster import Muster
from conformance.adapters.native import Native
from conformance.adapters.volcano import Volcano

ADAPTERS: Final[Mapping[str, Adapter]] = {
    "coscheduling": Coscheduling(),
    "kai": Kai(),
    "kueue": Kueue(),
    "muster": Muster(),
    "native": Native(),
    "volcano": Volcano(),
}
