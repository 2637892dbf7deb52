"""PersistentVolumes, their claims and classes, and the nodes that can use them.

Entry point: `volume_table.VolumeTable`.
"""
