"""The plug-ins of kube-scheduler, one module each under its name: filter and score together.

`volume_matching` and `volume_node_affinity` are parts of VolumeBinding.
"""
