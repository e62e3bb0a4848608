"""Each sample of a step is known by what it holds, wherever it lies and whatever lies beside it."""

import pytest

from chaoskit.probe.deferred import DeferredEvent
from chaoskit.probe.samples import MOST, Samples
from chaoskit.protocol.fingerprint import CHUNK, reduce_rows_on_device

torch = pytest.importorskip("torch")


def samples(*micro_batches):
    made = Samples()
    for tensors in micro_batches:
        made.add(tensors)
    return DeferredEvent({"samples": made}).settled()["samples"] if made.told else None


@pytest.fixture(params=["in memory", "on a device"])
def anywhere(request, monkeypatch):
    """Stands in for an accelerator: tensors are reduced where they lie."""
    if request.param == "on a device":
        monkeypatch.setattr(torch.Tensor, "is_cpu", False, raising=False)


@pytest.mark.usefixtures("anywhere")
class TestRows:
    def test_a_sample_is_the_same_at_any_place(self):
        rows = torch.randint(0, 100, (6, 5))
        found = samples([rows])
        order = [3, 1, 5, 0, 2, 4]
        assert samples([rows[order]]) == [found[index] for index in order]
        assert samples([rows[:2]], [rows[2:]]) == found
        assert len(set(found)) == 6 and all(len(each) == 16 for each in found)

    def test_all_tensors_of_a_batch_make_it(self):
        x, y = torch.zeros(4, 3), torch.arange(4)
        one, two, three = samples([x, y]), samples([x, y + 1]), samples([x, y, torch.tensor(0.5)])
        assert len(set(one)) == 4 and two[:3] == one[1:] and three == one

    @pytest.mark.parametrize("kind", [torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.complex64])
    def test_of_every_type_and_layout(self, kind):
        rows = torch.eye(7, 9).to(kind)
        found = samples([rows])
        assert len(set(found)) == 7
        assert samples([rows.t().contiguous().t()]) == found == samples([torch.cat([rows, rows], 1)[:, :9]])
        assert samples([rows[1:]]) == found[1:]
        assert len(samples([torch.ones(3, dtype=kind)])) == 3

    def test_a_step_whose_rows_cannot_be_told_has_none(self):
        x = torch.ones(2, 3)
        assert samples() is None
        assert samples([]) is None
        assert samples([torch.tensor(1.0)]) is None
        assert samples([x, torch.ones(3)]) is None
        assert samples([x], [x, torch.ones(3)]) is None
        assert samples([x.to_sparse()]) is None
        assert samples([torch.ones(MOST + 1)]) is None
        assert samples([torch.ones(MOST)], [torch.ones(1)]) is None

    def test_an_empty_micro_batch_has_no_rows(self):
        x = torch.ones(2, 3)
        assert samples([torch.ones(0, 3)]) == []
        assert samples([torch.ones(0, 3)], [x]) == samples([x])
        assert len(set(samples([torch.ones(2, 0)]))) == 1


def test_some_here_and_some_there(monkeypatch):
    here, there = torch.arange(3), torch.arange(3.0)
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda t: t.dtype == torch.int64), raising=False)
    found = samples([here], [here, there], [there])
    assert len(set(found)) == 9
    assert samples([here.flip(0), there.flip(0)]) == found[3:6][::-1]


def test_long_rows_are_reduced_in_chunks_whose_order_counts():
    rows = torch.zeros(2, CHUNK)  # a row takes two chunks
    rows[0, 0] = rows[1, CHUNK // 2] = 1
    assert len(set(reduce_rows_on_device(rows).tolist())) == 2
    assert reduce_rows_on_device(rows.flip(0)).tolist() == reduce_rows_on_device(rows).tolist()[::-1]
