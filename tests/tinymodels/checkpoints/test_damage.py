"""Whatever happens to the bytes of a checkpoint: it is refused, with a reason; never accepted, never a traceback."""

import json
import random
import shutil

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymodels.checkpoints.manifest import NAME, Invalid, self_checksum, verify
from tinymodels.checkpoints.store import Store

SEEDS = range(200)
MADE = ("--samples", 90, "--epochs", 1, "--save-every", 2, "--stop-after", 4)


@pytest.fixture
def real(train, tmp_path):
    """Two real checkpoints, of step 2 and of step 4."""
    train(tmp_path / "real", *MADE)
    return Store(tmp_path / "real" / "checkpoints", keep=9)


@pytest.fixture
def newest(real, tmp_path):
    """The newest of them, to be damaged."""
    return real.path(4)


def damage(dice, victim, other):
    """Something that disks and people do to files. Returns what it was."""
    files = sorted(path for path in victim.rglob("*") if path.is_file())
    file = dice.choice(files)
    content = bytearray(file.read_bytes())
    at = dice.randrange(len(content))
    kind = dice.choice(
        ("bit", "bytes", "cut", "zeros", "emptied", "gone", "longer", "swapped", "older", "stranger", "folder")
    )
    match kind:
        case "bit":
            content[at] ^= 1 << dice.randrange(8)
        case "bytes":
            new = dice.randbytes(min(len(content) - at, 64))
            content[at : at + len(new)] = new if new != content[at : at + len(new)] else bytes(b ^ 1 for b in new)
        case "cut":
            del content[at:]
        case "zeros":
            content[:] = bytes(len(content))
        case "emptied":
            content.clear()
        case "longer":
            content += dice.randbytes(dice.randrange(1, 600))
        case "swapped":
            second = dice.choice([path for path in files if path.read_bytes() != content])
            content, mine = bytearray(second.read_bytes()), bytes(content)
            second.write_bytes(mine)
        case "older":
            older = (other / file.relative_to(victim)).read_bytes()
            content[:] = older if older != content else older[:-1]  # some are the same at every step
        case "gone" | "folder":
            file.unlink()
            if kind == "folder":
                file.mkdir()
            return f"{kind} {file.name}"
        case "stranger":
            (file.parent / "__7_0.distcp").write_bytes(content)
            return kind
    file.write_bytes(content)
    return f"{kind} {file.name} at {at}"


def test_random_damage_is_never_accepted_and_always_told(real, newest, tmp_path):
    whole, kinds = tmp_path / "whole", set()
    shutil.copytree(newest, whole)
    for seed in SEEDS:
        done = damage(random.Random(seed), newest, real.path(2))
        with pytest.raises(Invalid) as told:
            real.validate(newest)
            pytest.fail(f"seed {seed}: {done} was accepted")
        assert str(told.value) and "\n" not in str(told.value), done
        kinds.add(done.split()[0])
        shutil.rmtree(newest)
        shutil.copytree(whole, newest)
    real.validate(newest)
    assert len(kinds) == 11


def stripped(manifest):
    for file in manifest["files"].values():
        del file["blake2b"]


def unlisted(manifest):
    del manifest["files"]["sharded/__0_0.distcp"]


def outside(manifest):
    manifest["files"]["../step-00000002/shared.pt"] = manifest["files"].pop("shared.pt")


def absolute(manifest):
    manifest["files"]["/etc/hostname"] = manifest["files"].pop("shared.pt")


def itself(manifest):
    manifest["base"] = {"step": 4, "checksum": "x"}


EDITS = {
    "without checksums": (stripped, "manifest.json has no valid entry for rank-00000.pt"),
    "without an entry for a file that is there": (unlisted, "sharded/__0_0.distcp is not listed"),
    "without any file": (lambda m: m["files"].clear(), "is not listed"),
    "a path that leads out": (outside, "a file called '../step-00000002/shared.pt'"),
    "a path from the root": (absolute, "a file called '/etc/hostname'"),
    "hangs on itself": (itself, "depends on step-00000004, which is not older"),
    "of another format": (lambda m: m.update(format=1), "its format is 1"),
    "saved by nobody": (lambda m: m.update(world_size=0), "no valid entry for world_size"),
    "saved by more": (lambda m: m.update(world_size=10**30), "the part of rank 1 is missing"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_manifest_that_vouches_for_itself_and_is_wrong(real, newest, edit):
    change, reason = EDITS[edit]
    manifest = json.loads((newest / NAME).read_text())
    change(manifest)
    manifest["checksum"] = self_checksum(manifest)
    (newest / NAME).write_text(json.dumps(manifest))
    with pytest.raises(Invalid, match=reason):
        real.validate(newest)


def test_a_file_that_nobody_listed_is_refused_though_all_others_are_right(real, newest):
    (newest / "sharded" / "more.pt").symlink_to("/etc/hostname")
    with pytest.raises(Invalid, match=r"sharded/more.pt is not listed in manifest.json"):
        real.validate(newest)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("format", "step", "world_size", "about", "notes", "base", "files")


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_manifest_with_anything_in_it_is_refused_and_nothing_worse(tmp_path, data):
    right = {"format": 2, "step": 4, "world_size": 1, "about": {}, "notes": {}, "base": None}
    file = st.fixed_dictionaries({}, optional={"bytes": ANYTHING, "blake2b": ANYTHING})
    files = st.dictionaries(
        st.sampled_from(("a", "b/c", "../x", "/", "", ".", "\0", "a" * 300)) | st.text(),
        file | ANYTHING,
        max_size=3,
    )
    manifest = right | {"files": data.draw(files)}
    for name in data.draw(st.sets(st.sampled_from(FIELDS), max_size=2)):
        manifest[name] = data.draw(ANYTHING)
    text = json.dumps(manifest | {"checksum": self_checksum(json.loads(json.dumps(manifest)))})
    (tmp_path / NAME).write_text(text)
    (tmp_path / "unlisted").write_text("so it is never right")
    with pytest.raises(Invalid):
        verify(tmp_path)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | ANYTHING.map(lambda any: json.dumps(any).encode()))
def test_a_manifest_that_is_anything_is_refused_and_nothing_worse(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(Invalid):
        verify(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"step": ' + b"9" * 10_000 + b"}"], ids=["deep", "long"])
def test_a_manifest_that_is_too_much(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(Invalid, match="is not readable"):
        verify(tmp_path)


class Eio:
    """A storage that fails so many times."""

    def __init__(self, real, times):
        self.real, self.left = real, times

    def __call__(self, *args, **more):
        self.left -= 1
        if self.left >= 0:
            raise OSError(5, "no such luck")
        return self.real(*args, **more)


@pytest.mark.parametrize(("times", "step"), [(2, 4), (3, 2)])
def test_a_storage_that_has_trouble_in_reading_is_asked_again(train, tmp_path, monkeypatch, capsys, times, step):
    """Two errors cost nothing; a disk that goes on costs this checkpoint, and says so."""
    train(tmp_path, *MADE)
    monkeypatch.setattr("tinymodels.checkpoints.manifest.checksum", Eio(checksum_of(), times))
    monkeypatch.setattr("tinymodels.checkpoints.loading.Checkpoints.PAUSE", 0.0)
    capsys.readouterr()
    assert train(tmp_path, *MADE[:-2], "--stop-after", 5) == 0
    said = capsys.readouterr().out
    assert f"step-0000000{step} (epoch 0" in said
    refused = "refused step-00000004: it cannot be read: [Errno 5] no such luck"
    assert (refused in said) == (step == 2)


def checksum_of():
    from tinymodels.checkpoints.durable import checksum

    return checksum


def test_a_disk_that_fails_while_the_state_is_read_is_asked_again_and_then_told(
    train, tmp_path, monkeypatch, capsys
):
    train(tmp_path, *MADE)
    monkeypatch.setattr("tinymodels.checkpoints.loading.Checkpoints.PAUSE", 0.0)
    monkeypatch.setattr("tinymodels.checkpoints.loading.read_tensors", Eio(torch.load, 99))
    capsys.readouterr()
    assert train(tmp_path, *MADE) == 1
    told = capsys.readouterr()
    assert "reading step-00000004 failed, attempt 3 of 3: rank 0: [Errno 5] no such luck" in told.out
    assert told.err == "tinymodels.train: error: reading step-00000004 failed: rank 0: [Errno 5] no such luck\n"
