"""What the console's server and its views are made of; the page is in `static/`.

It reads the cluster as the scheduler does, by the scheduler's own watches, and writes nothing.
"""
