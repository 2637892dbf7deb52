"""The reasons of pending groups in each command, the console and the docs."""
