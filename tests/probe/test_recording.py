"""What a rank records with `--record-every 5`: as much as the steps say, and nothing else than with every step."""

import pytest

from chaoskit.protocol.recording import VARIABLE

#: Steps in which torch draws and buffers move; a checkpoint is saved after one of them and read after another.
PROGRAM = """
import os, random, torch
torch.manual_seed(1)
random.seed(1)
layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
path = os.environ["CHAOSKIT_OUT"] + "/model.pt"
for step in range(1, %(steps)d + 1):
    loss = model(torch.randn(5, 4)).square().mean()
    print("LOSS", loss.item().hex())
    loss.backward(); optimizer.step(); optimizer.zero_grad()
    if step == %(saved)d:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    if step == %(loaded)d:
        torch.load(path)
print("DREW", torch.rand(()).item(), random.random())
"""


def program(steps=20, *, saved=0, loaded=0):
    return PROGRAM % {"steps": steps, "saved": saved, "loaded": loaded}


@pytest.fixture
def both(probed):
    """The steps of a program that records each, and of the same with a number."""

    def run(text, every=5, **options):
        found = [probed(text, env={VARIABLE: str(n)}, **options) for n in (1, every)]
        for one in found:
            assert one.code == 0 and not one.life.errors, one.output
        assert found[0].output == found[1].output
        return [one.life.steps for one in found]

    return run


def whole(steps):
    return [step.n for step in steps if not step.thin]


def test_what_is_recorded_is_what_every_step_would_have_recorded(both, cold):
    every, some = both(program(40), cold=cold)
    assert len(every) == len(some) == 40 and whole(every) == list(range(1, 41))
    assert whole(some) == [*range(1, 9), 10, 15, 20, 25, 30, 35, 40]
    for one, other in zip(every, some, strict=True):
        assert other.losses == one.losses and other.samples == one.samples
        kept = one.components if not other.thin else {n: one.components[n] for n in ("lr", "batch")}
        assert other.components == kept, other.n


def test_what_follows_on_a_save_and_on_a_load_is_recorded(both):
    every, some = both(program(40, saved=17, loaded=30))
    after = [*range(18, 26), *range(31, 39)]
    assert whole(some) == sorted({*range(1, 9), 10, 15, 20, 25, 30, 35, 40, *after})
    for one, other in zip(every, some, strict=True):
        # The buffers too, although it is before the forward pass that they are read.
        assert other.thin or other.components == one.components


def test_a_loss_that_is_no_number_ends_the_saving(probed):
    run = probed(
        program(25).replace("loss.backward()", "(loss * (float('nan') if step == 21 else 1)).backward()"),
        env={VARIABLE: "20"},
    )
    assert whole(run.life.steps) == [*range(1, 9), 20, 22, 23, 24, 25]


def test_a_loop_that_reports_its_steps_itself(both):
    text = """
import torch
import chaoskit.probe
torch.manual_seed(1)
weights = torch.zeros(4)
for step in range(12):
    batch = torch.randn(4)
    weights = weights + batch
    chaoskit.probe.step(loss=weights.sum().item(), batch=batch, model={"w": weights})
"""
    every, some = both(text)
    assert whole(some) == [*range(1, 9), 10]
    for one, other in zip(every, some, strict=True):
        assert other.components["batch"] == one.components["batch"]
        assert ("model" in other.components) is not other.thin
        assert other.thin or other.components == one.components


def test_the_record_becomes_smaller(probed):
    size = {}
    for every in (1, 10):
        run = probed(program(60), env={VARIABLE: str(every)})
        size[every] = sum(path.stat().st_size for path in (run.run_dir / "events").glob("rank-*"))
    assert size[10] < 0.8 * size[1]
