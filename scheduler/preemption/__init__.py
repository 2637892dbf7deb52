"""Preemption, carried out: conditions on the victims, then their deletion.

`Preemptor` is the entry point; `core/preemption` chooses the victims. Two other parts delete pods:
`held_places` when the time of expected pods is over, `binding/deadlines` when a gang is given up.
"""
