"""`muster doctor`: what is wrong with an installation, and the one thing to do about it.

Each module has the checks of one subject: a thin reader, and pure functions from what was read to
findings. `examination` runs them all; one that cannot be made is a finding and ends no other.
"""
