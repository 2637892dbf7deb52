"""The configuration file, and the part of it that each process reads."""
