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
    """Empty has no fields. Its presence selects it."""


class Condition(BaseModel):
    """Condition is one observation of a group's state."""

    type: str = Field("", description="type is the type of the condition in CamelCase.")
    status: str = Field(
        "", description="status is the status of the condition, one of True, False, Unknown."
    )
    observedGeneration: int = Field(
        0,
        description="observedGeneration is the .metadata.generation that the condition was set "
        "based upon.",
        json_schema_extra={"format": "int64"},
    )
    lastTransitionTime: datetime | None = Field(
        None,
        description="lastTransitionTime is the "
        "last time the condition transitioned from one status to another.",
    )
    reason: str = Field(
        "",
        description="reason is the reason for the condition's last "
        "transition, one word in CamelCase.",
    )
    message: str = Field(
        "", description="message is a human readable message with details about the transition."
    )
