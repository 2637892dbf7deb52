"""The parts that the models of several kinds share."""

# ruff: noqa: N815  fields bear the API's own names

from datetime import datetime

from pydantic import BaseModel, Field


class ListMap:
    """Marker of a list whose items have one field as key (`x-kubernetes-list-type: map`)."""

    def __init__(self, key: str) -> None:
        """Create it with the field that names an item."""
        self.key = key


class Empty(BaseModel):
    """Intentionally empty: its presence selects it."""


class Condition(BaseModel):
    """One observation of a group's state."""

    type: str = Field("", description="What is observed, in CamelCase.")
    status: str = Field("", description="True, False or Unknown.")
    observedGeneration: int = Field(
        0,
        description="The metadata.generation the observation was made of.",
        json_schema_extra={"format": "int64"},
    )
    lastTransitionTime: datetime | None = Field(None, description="When status last changed.")
    reason: str = Field("", description="Why, as one word in CamelCase.")
    message: str = Field("", description="Why, in a sentence for people.")
