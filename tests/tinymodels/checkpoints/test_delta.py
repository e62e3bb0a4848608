"""Chains of deltas: exact, and as strong as their weakest link, which is named."""

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinymodels.checkpoints.delta import chain, decode, encode, reconstruct
from tinymodels.checkpoints.manifest import Invalid, read, step_of, verify
from tinymodels.checkpoints.store import Store

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 3)  # 20 steps, alone
DELTAS = (*SMALL, "--delta-every", 3, "--keep", 9)  # 3 full, 6 and 9 hang on it, 12 full, ...


@given(st.binary(max_size=99), st.binary(max_size=99))
def test_exact(base, new):
    assert decode(base, encode(base, new)) == new


def test_what_is_alike_is_small():
    base = bytes(range(256)) * 64
    assert len(encode(base, base[:-1] + b"x")) < len(base) / 50


@pytest.mark.parametrize(
    "harm", [lambda d: d[:-3], lambda d: b"x" + d[1:], lambda d: b""], ids=["cut", "digest", "none"]
)
def test_what_does_not_fit_is_found(harm):
    delta = encode(b"base", b"new content")
    with pytest.raises(ValueError, match="delta"):
        decode(b"base", harm(delta))
    with pytest.raises(ValueError, match="does not fit its base"):
        decode(b"another", delta)


@pytest.fixture
def chained(train, tmp_path):
    """Step 9 hangs on 6, which hangs on 3; so 18 on 15 on 12."""
    train(tmp_path / "out", *DELTAS, "--stop-after", 19)
    return Store(tmp_path / "out" / "checkpoints", keep=9)


def files(path):
    return sorted(file.name for file in (path / "sharded").iterdir())


def test_one_in_so_many_is_full(chained):
    full = {step: files(chained.path(step)) == [".metadata", "__0_0.distcp"] for step in (3, 6, 9, 12, 15, 18)}
    assert full == {3: True, 6: False, 9: False, 12: True, 15: False, 18: False}
    assert files(chained.path(6)) == [".metadata", "__0_0.distcp.delta"]
    assert [step_of(link) for link in chain(chained.path(9))] == [9, 6, 3]
    small, large = (sum(f.stat().st_size for f in chained.path(n).rglob("*.*") if f.is_file()) for n in (6, 3))
    assert small < 0.8 * large


def test_put_together_it_is_what_was_written(train, chained, tmp_path):
    train(tmp_path / "full", *SMALL, "--keep", 9, "--stop-after", 19)
    for step in (3, 6, 9, 18):
        plain = tmp_path / "full" / "checkpoints" / f"step-{step:08d}" / "sharded" / "__0_0.distcp"
        assert reconstruct(chained.path(step), "sharded/__0_0.distcp") == plain.read_bytes()


@pytest.mark.parametrize("flags", [(), ("--parallel", "fsdp"), ("--save-async",)], ids=["ddp", "fsdp", "async"])
def test_resumes_exactly_from_a_delta(train, tmp_path, capsys, assert_same_end, flags):
    train(tmp_path / "whole", *SMALL, "--keep", 9, *flags)
    train(tmp_path / "parts", *DELTAS, *flags, "--stop-after", 11)
    capsys.readouterr()
    train(tmp_path / "parts", *DELTAS, *flags)
    assert "step-00000009 (" in capsys.readouterr().out
    for out in (tmp_path / "whole", tmp_path / "parts"):
        (out / "checkpoints" / "end").mkdir()  # the state, without what it was written as
        (last := out / "checkpoints" / "step-00000020").joinpath("shared.pt").rename(
            out / "checkpoints/end/shared.pt"
        )
        (last / "rank-00000.pt").rename(out / "checkpoints/end/rank-00000.pt")
        (out / "checkpoints/end/tensors.pt").write_bytes(reconstruct(last, "sharded/__0_0.distcp"))
        for step in out.glob("checkpoints/step-*"):
            shutil.rmtree(step)
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damaged", "file", "left", "told"),
    [
        (15, "sharded/__0_0.distcp.delta", 12, "it depends on step-00000015, where sharded/__0_0.distcp.delta does"),
        (12, "sharded/__0_0.distcp", 9, "it depends on step-00000012, where sharded/__0_0.distcp does not match"),
        (12, "manifest.json", 9, "it depends on step-00000012, where manifest.json"),
    ],
    ids=["link", "base", "manifest of the base"],
)  # fmt: skip
def test_a_broken_link_takes_what_hangs_on_it_and_is_named(
    train, chained, tmp_path, capsys, damaged, file, left, told
):
    flip(chained.path(damaged) / file)
    capsys.readouterr()
    assert train(tmp_path / "out", *DELTAS, "--stop-after", 19) == 0
    said = capsys.readouterr().out
    assert f"refused step-00000018: {told}" in said
    assert f"step-{left:08d} (epoch" in said


def test_a_base_that_is_gone_or_another_is_missed(chained):
    other = chained.path(15).rename(chained.folder / "away")
    with pytest.raises(Invalid, match=r"it depends on step-00000015, where manifest.json is missing"):
        chained.validate(chained.path(18))
    shutil.copytree(chained.path(12), chained.path(15))
    with pytest.raises(Invalid, match=r"it depends on step-00000015, which has changed since"):
        chained.validate(chained.path(18))
    shutil.rmtree(chained.path(15))
    other.rename(chained.path(15))
    chained.validate(chained.path(18))


def test_no_delta_to_a_base_that_was_damaged_meanwhile(train, tmp_path, capsys):
    """It would be lost with its base: a full one is written instead."""
    from tinymodels.checkpoints.loading import Checkpoints

    class Damages(Checkpoints):
        def begin(self, step):
            if step == 6:
                flip(self.path(3) / "sharded" / "__0_0.distcp")
            return super().begin(step)

    train(tmp_path, *DELTAS, "--stop-after", 7, checkpoints=Damages)
    assert (
        "saving step 6 failed, attempt 1 of 3: rank 0: [Errno 5] no delta to step-00000003"
        in capsys.readouterr().out
    )
    assert read(tmp_path / "checkpoints" / "step-00000006")["base"] is None


def test_what_is_kept_has_all_that_it_hangs_on(train, tmp_path):
    train(tmp_path, *SMALL, "--delta-every", 3, "--keep", 1, "--stop-after", 10)
    assert sorted(step_of(path) for path in (tmp_path / "checkpoints").iterdir()) == [3, 6, 9]
    train(tmp_path, *SMALL, "--delta-every", 3, "--keep", 1, "--stop-after", 13)
    left = sorted((tmp_path / "checkpoints").iterdir())
    assert [step_of(path) for path in left] == [12]
    verify(left[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_ranks(launch, tmp_path, kind):
    flags = ("--epochs", 1, "--save-every", 4, "--parallel", kind)
    assert launch(tmp_path / "whole", *flags)[0] == [0, 0]
    assert launch(tmp_path / "parts", *flags, "--delta-every", 4, "--stop-after", 14)[0] == [0, 0]
    codes, said = launch(tmp_path / "parts", *flags, "--delta-every", 4)
    assert codes == [0, 0] and "step-00000012 (" in said
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert one == two
