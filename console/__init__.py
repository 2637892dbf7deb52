"""The console: its server and its views. The page is in `static/`.

It reads the cluster as the scheduler does, through the scheduler's own watches, and writes nothing.
"""
