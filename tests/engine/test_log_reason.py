"""Why a job ended, from its log: the job's own words, never those of its launcher."""

import pytest

from chaoskit.engine.log_reason import reason

TORCHRUN = """\
W1123 10:32:53.123000 77 torch/distributed/run.py:774] *****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
{own}
E1123 10:32:55.123000 77 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 0
Traceback (most recent call last):
  File "/venv/bin/torchrun", line 7, in <module>
  File "/venv/torch/distributed/run.py", line 900, in main
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_10:32:55
  host      : node
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 80)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    "own, said",
    [
        ("[rank0]: EOFError: Ran out of input", "EOFError: Ran out of input"),
        ("[rank0]: EOFError: Ran out of input\n[rank1]:     raise", "EOFError: Ran out of input"),
        ("[rank0]: no checkpoint can be read\n[rank0]: ", "no checkpoint can be read"),
        ("[default1]:[rank1]: no checkpoint can be read", "no checkpoint can be read"),
        ("no checkpoint can be read", "no checkpoint can be read"),
        ("", ""),
    ],
)
def test_the_reason_is_the_jobs_own(own, said):
    assert reason(TORCHRUN.format(own=own)) == said


def test_a_line_of_bars_or_nothing_is_no_reason():
    assert reason("") == "" == reason("=====\n-----\n")
    assert reason("step 1\nstep 2\n") == "step 2"
