"""Held places: capacity kept free for expected pods, and its time limits.

`held_places.HeldPlaces` is the entry point.
"""
