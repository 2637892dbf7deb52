"""ProvisioningRequests for roots that wait for capacity.

`controller` is the entry point.
"""
