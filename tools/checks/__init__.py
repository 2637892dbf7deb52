"""Checks of `make check` for rules that no linter knows.

after_await     the scheduler's accesses to the state after an `await`
unread_results  ignored results of the core that report a shortage
"""
