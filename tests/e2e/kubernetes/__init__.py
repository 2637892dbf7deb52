"""The tables of e2e/kubernetes."""
