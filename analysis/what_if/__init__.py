"""What would happen to a cluster if manifests were created and nodes came or went.

`what_if.what_if` is the entry point; `worker` is a process that answers one question.
"""
