"""The kernel of fingerprints on a device: what it is made of, and that without it nothing is different."""

import re
from pathlib import Path

import pytest

from chaoskit.protocol import multilinear as it

torch = pytest.importorskip("torch")

SOURCE = Path(it.__file__).with_suffix(".cu").read_text()


def test_the_kernel_and_its_caller_have_the_same_sizes():
    defined = dict(re.findall(r"#define (\w+) (.+)", SOURCE))
    assert defined["CHUNK"] == f"(1LL << {it.CHUNK.bit_length() - 1})"
    assert (int(defined["THREADS"]), int(defined["DEEP"])) == (it.THREADS, it.DEEP)
    assert it.THREADS * int(defined["EACH"]) == it.TILE


def test_the_text_for_the_driver_has_the_kernel_and_asks_for_no_new_driver():
    text = Path(it.__file__).with_suffix(".ptx").read_text()
    assert ".visible .entry chaoskit_multilinear(" in text
    assert ".version 6.4\n.target sm_70\n" in text


def test_a_tensor_in_memory_has_no_kernel():
    words = torch.arange(5, dtype=torch.int32)
    with it.together():
        assert it.multilinear(words, words.long()) is None


def test_tensors_that_are_collected_share_a_launch_and_the_room_for_their_sums(monkeypatch):
    """The device and its kernel are stand-ins; what is in the table, the kernel gets."""
    launches = []

    def launch(table, count, units, weights):
        launches.append((table.view(-1, 4).tolist(), count, units, len(weights)))
        return True

    plain = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory=False, **k: plain(*a, **k))
    batch = it._LaunchTable("cpu", launch, 8)
    one, two = torch.arange(5, dtype=torch.int32), torch.zeros(3 * it.CHUNK + 1, dtype=torch.int32)
    few, many = torch.ones(5, dtype=torch.int64), torch.ones(9, dtype=torch.int64)
    sums = [batch.add(one, few), batch.add(two, many), batch.add(one, few)]
    batch.run()
    assert [len(each) for each in sums] == [1, 4, 1]
    ((table, count, units, weights),) = launches
    tiles = it.CHUNK // it.TILE
    assert (count, units, weights) == (3, 1 + tiles + 1, 9)
    assert [row[1] for row in table] == [5, 3 * it.CHUNK + 1, 5] and [row[3] for row in table] == [0, 1, 1 + tiles]
    assert [row[2] for row in table] == [each.data_ptr() for each in sums]
