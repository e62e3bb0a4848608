"""A disk that fails one rank fails all of them, alike; no other error is taken for that."""

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from tinymodels.elasticity.collective_io import StorageFailed, on_all_ranks


class Two:
    """A world in which another rank says what it is told to."""

    rank, leads, patience = 0, True, 60.0
    device = torch.device("cpu")

    def __init__(self, other=None, *, late=0):
        self.other, self.late = other, late

    def gather(self, mine):
        self.late -= 1
        return [mine, (self.late < 0, self.other)]


def fail(error):
    raise error


def test_what_was_done_is_returned():
    assert on_all_ranks(Two(), lambda: 5) == 5


def test_who_takes_longer_is_waited_for():
    world = Two(late=3)
    assert on_all_ranks(world, lambda: 5) == 5
    assert world.late == -1


def test_an_error_of_a_signal_goes_its_way():
    with pytest.raises(KeyboardInterrupt):
        on_all_ranks(Two(), lambda: fail(KeyboardInterrupt()))


def test_my_disk():
    with pytest.raises(StorageFailed, match=r"rank 0: \[Errno 28\] full"):
        on_all_ranks(Two(), lambda: fail(OSError(28, "full")))


def test_the_disk_of_another():
    with pytest.raises(StorageFailed, match="rank 1: full"):
        on_all_ranks(Two("rank 1: full"), lambda: 5)


def test_what_dcp_made_of_a_disk():
    wrapped = CheckpointException("write", {1: (OSError(28, "full"), [])})
    with pytest.raises(StorageFailed, match=r"rank 1: \[Errno 28\] full"):
        on_all_ranks(Two(), lambda: fail(wrapped))


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), CheckpointException("write", {0: (OSError("full"), []), 1: (KeyError(), [])})]
)
def test_other_errors_go_their_way(error):
    with pytest.raises(type(error)):
        on_all_ranks(Two(), lambda: fail(error))
