"""Tests of ResourceClaims: how they are watched, written and given back."""
