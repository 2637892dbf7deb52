"""The outcome for a cluster if manifests were created, or nodes added or removed.

Entry point: `what_if.what_if`. `worker` is a process that evaluates one question.
"""
