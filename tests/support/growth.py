"""The memory kept by an object: a count of everything reachable from it."""

import asyncio
import gc
import types
from collections import Counter

_CODE = (type, types.ModuleType, types.CodeType, types.CoroutineType, types.AsyncGeneratorType)
_APART = (*_CODE, asyncio.AbstractEventLoop, int, float)


def kept_by(root: object, *, without: tuple[object, ...] = ()) -> Counter[str]:
    """Return the objects that `root` keeps alive, and its containers' entries, by their types.

    Code (running or not), numbers, and objects reachable only through `without` do not count.
    """
    gc.collect()
    found: Counter[str] = Counter()
    seen, left = {id(it) for it in without}, [root]
    while left:
        obj = left.pop()
        if id(obj) in seen or isinstance(obj, _APART):
            continue
        seen.add(id(obj))
        found[type(obj).__name__] += 1
        if isinstance(obj, (dict, list, set)):
            found[f"entries of {type(obj).__name__}"] += len(obj)
        if isinstance(obj, types.FunctionType):
            left += obj.__closure__ or ()  # not its globals
        else:
            left += gc.get_referents(obj)
    return found
