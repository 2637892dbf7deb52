"""Checks of `make check` for rules that no linter knows.

after_await  what the scheduler reads or writes after an `await`
"""
