"""`muster doctor`: the problems of an installation, each with the one thing to do about it.

Each module has the checks of one subject: a thin reader, and pure functions from what was read to
findings. `examination` runs them all. A check that cannot run is a finding and ends no other check.
"""
