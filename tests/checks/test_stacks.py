"""Stacks: which collective a rank waits in, and where in the job's own code. The dumps are real ones, shortened."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaoskit.checks.stacks import Waiting, explain, waits_in

TORCH = "/home/me/venv/lib/python3.11/site-packages/torch"
OWN = """\
  File "/home/me/job/train.py", line 41 in step
  File "/home/me/job/train.py", line 9 in <module>
"""
C10D = f"{TORCH}/distributed/distributed_c10d.py"


def dump(*frames, own=OWN):
    """What faulthandler writes; frames are 'file:line function', the innermost first."""
    lines = [re.sub(r"(.*):(\d+) (.*)", r'  File "\1", line \2 in \3', frame) for frame in frames]
    other = 'Thread 0x1 (most recent call first):\n  File "/usr/lib/python3.11/threading.py", line 320 in wait\n\n'
    return other + "Current thread 0x2 (most recent call first):\n" + "".join(f"{x}\n" for x in lines) + own


def collective(name, line=1):
    return dump(f"{C10D}:{line} {name}", f"{TORCH}/distributed/c10d_logger.py:83 wrapper")


PLANNING = dump(
    f"{C10D}:4287 all_gather",
    f"{TORCH}/distributed/c10d_logger.py:83 wrapper",
    f"{C10D}:3631 gather_object",
    f"{TORCH}/distributed/checkpoint/utils.py:135 gather_object",
    f"{TORCH}/distributed/checkpoint/utils.py:197 reduce_scatter",
    f"{TORCH}/distributed/checkpoint/state_dict_saver.py:487 _save_state_dict",
    f"{TORCH}/distributed/checkpoint/state_dict_saver.py:196 save",
    f"{TORCH}/distributed/checkpoint/utils.py:485 inner_func",
)
BACKWARD = dump(
    f"{TORCH}/autograd/graph.py:979 _engine_run_backward",
    f"{TORCH}/autograd/__init__.py:395 backward",
    f"{TORCH}/_tensor.py:623 backward",
    "/src/chaoskit/probe/hooks.py:77 backward",
)
BUFFERS = dump(
    f"{TORCH}/nn/parallel/distributed.py:2363 _distributed_broadcast_coalesced",
    f"{TORCH}/nn/parallel/distributed.py:2429 _sync_module_buffers",
    f"{TORCH}/nn/parallel/distributed.py:2425 _sync_buffers",
    f"{TORCH}/nn/parallel/distributed.py:1782 _pre_forward",
    f"{TORCH}/nn/parallel/distributed.py:1886 forward",
    f"{TORCH}/nn/modules/module.py:1789 _call_impl",
)
CONSTRUCTION = dump(
    f"{TORCH}/distributed/utils.py:286 _verify_param_shape_across_processes",
    f"{TORCH}/nn/parallel/distributed.py:1064 __init__",
)
RENDEZVOUS = dump(
    f"{C10D}:2169 _new_process_group_helper",
    f"{C10D}:1899 init_process_group",
    f"{TORCH}/distributed/c10d_logger.py:97 wrapper",
)
FSDP = dump(
    f"{C10D}:4394 all_gather_single",
    f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_collectives.py:364 foreach_all_gather",
    f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_state.py:314 _pre_forward",
    f"{TORCH}/_dynamo/eval_frame.py:1446 _fn",
    f"{TORCH}/nn/modules/module.py:1884 _call_impl",
)
OBJECTS = dump(
    f"{C10D}:3151 broadcast",
    f"{TORCH}/distributed/c10d_logger.py:83 wrapper",
    f"{C10D}:4026 broadcast_object_list",
)
LOAD = '  File "/home/me/job/data.py", line 3 in load\n' + OWN
SLEEPS = dump(own=LOAD)


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        *(
            (collective(name), name)
            for name in ("all_reduce", "broadcast", "barrier", "monitored_barrier", "recv")
        ),
        *((collective(name), name) for name in ("all_gather_into_tensor", "reduce_scatter_tensor", "new_group")),
        (collective("get_rank"), None),
        (OBJECTS, "broadcast_object_list"),
        (PLANNING, "reduce_scatter of the checkpoint's planning"),
        (BACKWARD, "the gradient exchange of backward"),
        (BUFFERS, "the exchange of buffers in DDP's forward"),
        (CONSTRUCTION, "the construction of DDP"),
        (RENDEZVOUS, "init_process_group"),
        (dump(f"{TORCH}/distributed/rendezvous.py:200 _create_c10d_store"), "the rendezvous"),
        (FSDP, "all_gather_single"),
    ],
)
def test_what_a_rank_waits_in(stack, name):
    waiting = waits_in(stack)
    assert (waiting.collective, waiting.where) == (name, "train.py:41 in step")


def test_a_collective_that_the_jobs_own_code_is_called_inside_of_is_not_it():
    stack = dump(
        f"{C10D}:1 all_reduce", "/home/me/job/hook.py:5 on_gradient", f"{TORCH}/autograd/__init__.py:395 backward"
    )
    assert waits_in(stack) == Waiting(
        "all_reduce", "hook.py:5 in on_gradient", "distributed_c10d.py:1 in all_reduce"
    )


def test_a_job_that_is_installed_itself():
    installed = OWN.replace("/home/me/job", "/usr/lib/python3/dist-packages/trainer")
    stack = dump(f"{C10D}:1 all_reduce", own=installed)
    assert waits_in(stack) == Waiting("all_reduce", "train.py:41 in step", "distributed_c10d.py:1 in all_reduce")


def test_a_rank_that_waits_for_something_else():
    stack = dump("/usr/lib/python3.11/queue.py:171 get", f"{TORCH}/utils/data/dataloader.py:1275 _try_get_data")
    assert waits_in(stack) == Waiting(None, "train.py:41 in step", "queue.py:171 in get")
    assert explain({0: stack}) == "rank 0 at train.py:41 in step, inside queue.py:171 in get"


def test_a_traceback_is_read_from_its_end():
    text = 'Traceback (most recent call last):\n  File "/a/b.py", line 1, in f\n  File "/a/c.py", line 2, in g\n'
    assert waits_in(text) == Waiting(None, "c.py:2 in g", "c.py:2 in g")
    only_torch = f'Traceback (most recent call last):\n  File "{C10D}", line 2, in barrier\n'
    assert waits_in(only_torch).where == "distributed_c10d.py:2 in barrier"


@pytest.mark.parametrize("text", ["", "stopped (SIGSTOP)", 'Binary file "/lib/x.so", at f+0x1 [0x2]'])
def test_what_is_no_stack(text):
    assert waits_in(text) is None


@pytest.mark.parametrize(
    ("stacks", "said"),
    [
        (
            [collective("broadcast"), collective("all_reduce")],
            "rank 0 waits in broadcast (train.py:41 in step), rank 1 in all_reduce (train.py:41 in step): "
            "the ranks are in different collectives",
        ),
        ([BACKWARD] * 4, "all ranks wait in the gradient exchange of backward (train.py:41 in step)"),
        (
            [collective("barrier"), dump(f"{C10D}:1 barrier", own=LOAD)],
            "rank 0 waits in barrier (train.py:41 in step), rank 1 in barrier (data.py:3 in load): "
            "the same collective, called from different places",
        ),
        (
            [BACKWARD, SLEEPS, BACKWARD],
            "ranks 0 and 2 wait in the gradient exchange of backward (train.py:41 in step), "
            "rank 1 at data.py:3 in load: rank 1 was not seen in it",
        ),
        (
            [collective("all_reduce"), "stopped (SIGSTOP)"],
            "rank 0 waits in all_reduce (train.py:41 in step), rank 1 stopped (SIGSTOP)",
        ),
        (
            [RENDEZVOUS, "", "", ""],
            "rank 0 waits in init_process_group (train.py:41 in step), ranks 1 to 3 left no stack",
        ),
        ([collective("send"), collective("recv")], "rank 0 waits in send (train.py:41 in step), rank 1 in recv "
         "(train.py:41 in step)"),
        ([collective("all_reduce")], "rank 0 waits in all_reduce (train.py:41 in step)"),
        ([SLEEPS, SLEEPS], "ranks 0 and 1 at data.py:3 in load"),
        (["", ""], "no rank left a stack"),
    ],
)  # fmt: skip
def test_the_clause(stacks, said):
    assert explain(dict(enumerate(stacks))) == said


def stuck(tmp_path, *told):
    """The real stacks of two ranks that are stuck, each in what it is told."""
    script = Path(__file__).with_name("stuck_rank.py")
    ranks = [
        subprocess.Popen(
            ["timeout", "240", sys.executable, str(script), str(rank), str(tmp_path / "store"), what],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, what in enumerate(told)
    ]
    return {rank: process.communicate()[1] for rank, process in enumerate(ranks)}


@pytest.mark.launches
@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            ("barrier", "broadcast"),
            "rank 0 waits in barrier (stuck_rank.py:N in wait_in_it), rank 1 in broadcast_object_list "
            "(stuck_rank.py:N in wait_in_it): the ranks are in different collectives",
        ),
        (
            ("backward", "save"),
            "rank 0 waits in the gradient exchange of backward (stuck_rank.py:N in wait_in_it), "
            "rank 1 in reduce_scatter of the checkpoint's planning (stuck_rank.py:N in wait_in_it): "
            "the ranks are in different collectives",
        ),
    ],
)
def test_ranks_that_are_really_stuck(tmp_path, told, said):
    assert re.sub(r":\d+ in", ":N in", explain(stuck(tmp_path, *told))) == said
