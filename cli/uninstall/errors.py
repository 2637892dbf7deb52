"""What can stop a removal, besides the errors of an API server."""

from collections.abc import Sequence

from kube.base.errors import KubeError


class StillThereError(KubeError):
    """Something does not go; the message says what, and what may hold it."""

    def __init__(self, seconds: float, what: str, holding: Sequence[str] = ()) -> None:
        """`what` was waited for; `holding` are the first of the reasons."""
        named = f": {'; '.join(holding[:5])}" if holding else ""
        super().__init__(
            f"waited {seconds:.0f} s for {what}{named}."
            " Run the command again once that is cleared: it goes on from here"
        )
