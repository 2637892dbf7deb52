"""Devices in use on a node during a trial that adds pods and releases claims."""

from scheduler.core.devices.allowance import DeviceAllowance
from scheduler.core.devices.kinds import NOTHING
from scheduler.core.devices.layouts import DeviceUsage
from scheduler.core.devices.states import DeviceStates, UsageChange
from tests.scheduler.core.devices.solving import layout_of, resolved, view_of
from tests.scheduler.devices.builders import ask, gpu, gpus


def test_a_device_that_a_pod_and_a_claim_have_stays_in_use_when_the_claim_gives_it_back() -> None:
    """In a dry run, the victim's claim is released; a pod gets the device, and keeps it."""
    view = view_of([gpus(1)])
    asks = resolved([ask(gpu())])
    layout = layout_of(view, asks)
    states = DeviceStates(DeviceAllowance())
    number = states.number_of(asks, NOTHING)

    released = states.changed(layout, states.of(DeviceUsage(used=1)), UsageChange(freed=1))
    put, missing = states.put(layout, released, number, 1, fix=True)
    both = states.changed(layout, put, UsageChange(taken=1))
    again = states.changed(layout, both, UsageChange(freed=1))

    assert missing == 0
    assert [states.all[state].clash for state in (put, both, again)] == [False, True, False]
    assert states.all[again].base.used == 1
    assert states.capacity(layout, again, number).count == 0
