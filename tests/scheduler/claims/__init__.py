"""Tests of ResourceClaims: watches, writes and deallocation."""
