"""Tests of release/."""
