"""Checks of `make check` for rules that no linter knows.

after_await     what the scheduler reads or writes after an `await`
unread_results  answers of the core that something did not suffice
"""
