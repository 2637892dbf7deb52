"""The rules of the API: one function to judge an object, one module to a part of it."""

from api.rules.validation import validate

__all__ = ["validate"]
