"""Decisions alone, on generated states: times, memory, growth.

Entry point: `decisions`.
"""
