"""The rules of the API: one function validates an object, a module for each part of it."""

from api.rules.validation import validate

__all__ = ["validate"]
