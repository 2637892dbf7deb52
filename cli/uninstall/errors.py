"""Errors that can stop a removal, apart from those of an API server."""

from collections.abc import Sequence

from kube.base.errors import KubeError


class StillThereError(KubeError):
    """An object is not deleted in time. The message names it and what may block it."""

    def __init__(self, seconds: float, what: str, holding: Sequence[str] = ()) -> None:
        """Build the message: `what` was awaited; `holding` are the first reasons."""
        named = f": {'; '.join(holding[:5])}" if holding else ""
        super().__init__(
            f"waited {seconds:.0f} s for {what}{named}."
            " Resolve this, then run the command again: it continues from here."
        )
