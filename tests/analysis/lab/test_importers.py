"""Published traces, with invented rows in the columns of the real ones."""

from pathlib import Path

import pytest

from analysis.lab.errors import LabError
from analysis.lab.importers import IMPORTERS
from analysis.lab.trace import Job

OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p-1,12000,16384,1,1000,,LS,Running,100,700,110
p-2,6000,12288,1,460,,BE,Running,150,160,150
p-3,500,64,0,0,,BE,Failed,160,165,165
p-4,500,64,8,1000,V100M32,LS,Pending,170,180,
"""

PHILLY = """[
 {"status": "Pass", "vc": "v1", "jobid": "j1", "submitted_time": "2017-10-05 10:00:00", "user": "u",
  "attempts": [
   {"start_time": "2017-10-05 10:01:00", "end_time": "2017-10-05 10:02:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
   {"start_time": "2017-10-05 11:00:00", "end_time": "2017-10-05 12:00:00",
    "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}]},
 {"status": "Killed", "vc": "v2", "jobid": "j2", "submitted_time": "2017-10-05 10:30:00 PDT",
  "attempts": []},
 {"status": "Pass", "vc": "v2", "jobid": "j3", "submitted_time": "2017-10-05 10:30:00 PDT",
  "attempts": [{"start_time": "2017-10-05 10:30:00", "end_time": "2017-10-05 10:31:40",
   "detail": [{"ip": "m1", "gpus": ["gpu3"]}]}]}
]"""

BORG = """\
{"time":"5000000","type":"SUBMIT","collection_id":"7","instance_index":0,"priority":200,"resource_request":{"cpus":0.125,"memory":0.25}}
{"time":"5000000","type":0,"collection_id":"7","instance_index":1,"priority":200,"resource_request":{"cpus":0.25,"memory":0.125}}
{"time":"8000000","type":3,"collection_id":"7","instance_index":0,"priority":200}
{"time":"9000000","type":"FINISH","collection_id":"7","instance_index":1,"priority":200}
{"time":"18000000","type":6,"collection_id":"7","instance_index":0,"priority":200}
{"time":"6000000","type":"SUBMIT","collection_id":"8","collection_type":"ALLOC_SET"}
{"time":"6000000","type":"SUBMIT","collection_id":"9"}
{"time":"0","type":"SCHEDULE","collection_id":"10"}
{"time":"7000000","type":"FINISH","collection_id":"10"}
"""


def read(folder: Path, kind: str, text: str) -> list[Job]:
    file = folder / "trace"
    file.write_text(text)
    return IMPORTERS[kind](file)


def test_openb_rows_are_jobs_of_one_pod(tmp_path: Path) -> None:
    first, second, third = read(tmp_path, "openb", OPENB)

    assert first == Job(
        name="p-1",
        arrival=0,
        duration=590,
        requests=(("cpu", 12000), ("memory", 16384 << 20), ("nvidia.com/gpu", 1)),
        priority=10,
    )
    assert (second.arrival, second.duration) == (50, 10)
    assert dict(second.requests)["example.com/gpu-milli"] == 460
    assert [name for name, _ in third.requests] == ["cpu", "memory"]
    assert third.duration == 1  # a job without duration would end before it began


def test_philly_jobs_have_a_pod_for_each_machine_of_the_last_attempt(tmp_path: Path) -> None:
    assert read(tmp_path, "philly", PHILLY) == [
        Job(
            name="j1",
            namespace="v1",
            arrival=0,
            duration=3660,
            pods=2,
            requests=(("nvidia.com/gpu", 2),),
        ),
        Job(
            name="j3",
            namespace="v2",
            arrival=1800,
            duration=100,
            requests=(("nvidia.com/gpu", 1),),
        ),
    ]


def test_borg_collections_are_gangs_that_ask_for_the_most(tmp_path: Path) -> None:
    assert read(tmp_path, "borg", BORG) == [
        Job(
            name="7",
            arrival=0,
            duration=10,
            pods=2,
            requests=(("cpu", 16000), ("memory", 64 << 30)),
            priority=200,
        )
    ]


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("openb", "name,cpu\nx,1\n", "no jobs found"),
        ("openb", OPENB.replace("12000", "many"), "line 2: cpu: not a quantity"),
        ("openb", OPENB.replace(",100,700,", ",100,late,"), "line 2: not a pod of this trace"),
        ("philly", "{}", "Expected `array`"),
        ("philly", PHILLY.replace("2017-10-05 10:01:00", "yesterday"), "entry 1 (j1)"),
        ("borg", "{}\n", "line 1: Object missing required field"),
    ],
)
def test_what_is_no_such_trace_is_said(tmp_path: Path, kind: str, text: str, problem: str) -> None:
    with pytest.raises(LabError) as raised:
        read(tmp_path, kind, text)

    assert problem in str(raised.value)
