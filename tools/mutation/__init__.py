"""Mutation testing: the share of random one-line changes in production code that unit tests catch.

`python -m tools.mutation` draws changes of single lines from a seed, runs the tests that execute
each changed line, and reports the changes that no test catches.

As in mutmut and cosmic-ray, mutants are replacements of text at positions that `ast` reports, not
trees written back to source. So each one is a line to show, to apply by hand and to find again in a
later state of the file. Those tools also start a process of pytest for each mutant, which costs
half a minute in this repository. Here a process collects all tests once and forks; the child
replaces the code object of one function and runs the tests.
"""
