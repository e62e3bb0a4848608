"""A full disk says so; a text is replaced as a whole."""

import resource
import signal

import pytest
import torch
import torch.distributed.checkpoint as dcp

from tinymodels.checkpoints.durable import write_tensors, write_text
from tinymodels.checkpoints.formats import Writer


@pytest.fixture
def full():
    """No file may grow beyond a few kilobytes."""
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limit[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    signal.signal(signal.SIGXFSZ, handler)


def test_tensors_on_a_full_disk(full, tmp_path):
    with pytest.raises(OSError, match="File too large"):
        write_tensors(tmp_path / "big.pt", {"a": torch.zeros(10_000)})


@pytest.mark.filterwarnings("ignore:torch.distributed")
def test_sharded_tensors_on_a_full_disk(full, tmp_path):
    with pytest.raises(dcp.api.CheckpointException) as failed:
        dcp.save({"a": torch.zeros(10_000)}, storage_writer=Writer(tmp_path / "sharded", 0.0), no_dist=True)
    assert [type(cause) for cause, _ in failed.value.failures.values()] == [OSError]


def test_a_text_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "text"
    write_text(path, "old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
