"""Muster beside other people's controllers, which are real."""
