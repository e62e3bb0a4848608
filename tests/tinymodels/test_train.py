"""The training itself: the losses that it always had, whatever its checkpoints look like."""

import json

import pytest

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone
#: Losses of steps 1, 10 and 20. To the last bit they depend on the processor and on torch.
LOSSES = {
    "gpt": ((), (3.467289, 3.374262, 3.272287)),
    "mlp-amp-noise": (("--model", "mlp", "--amp", "--noise", 0.2), (3.462949, 3.382865, 3.329129)),
    "bf16": (("--bf16",), (3.467299, 3.374297, 3.272440)),
    "fsdp-workers": (("--parallel", "fsdp", "--workers", 1), (3.467289, 3.374262, 3.272287)),
}


@pytest.mark.parametrize("variant", LOSSES)
def test_the_losses_are_those_of_always(train, tmp_path, variant):
    flags, known = LOSSES[variant]
    train(tmp_path, *SMALL, *flags)
    losses = [float.fromhex(json.loads(line)["loss"]) for line in (tmp_path / "metrics.jsonl").open()]
    assert len(losses) == 20
    assert [losses[step - 1] for step in (1, 10, 20)] == pytest.approx(known, rel=5e-5)


def test_how_checkpoints_are_written_changes_no_bit(train, tmp_path):
    """Asynchronous, as deltas, in other formats, copied: the same metrics and the same model."""
    variants = {
        "plain": (),
        "deltas": ("--save-async", "--delta-every", 3, "--save-every", 2),
        "pt": ("--format", "pt", "--keep", 1, "--keep-epochs"),
        "copied": ("--format", "safetensors", "--replica", tmp_path / "second"),
        "checked": ("--check-replicas", 3, "--check-finite", 3, "--on-nonfinite", "skip", "--postmortem"),
    }
    ends = set()
    for name, flags in variants.items():
        train(tmp_path / name, *SMALL, *flags)
        ends.add(tuple((tmp_path / name / file).read_bytes() for file in ("metrics.jsonl", "model.safetensors")))
    assert len(ends) == 1
