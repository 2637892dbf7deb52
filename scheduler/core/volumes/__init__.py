"""PersistentVolumes, their claims, classes and capacities, and the nodes that can use them.

Entry point: `volume_table.VolumeTable`.
"""
