"""What was saved is what is loaded, or it is refused, by name and with the reason."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tinymodels.checkpoints.loading import Checkpoints, Invalid, Refused, read_tensors
from tinymodels.config import parse
from tinymodels.elasticity.world import World

ALONE = World(0, 1, torch.device("cpu"))


class Paper(Checkpoints):
    """Checkpoints of paper: everything but the tensors is real."""

    def write(self, state, folder):
        (folder / "sharded" / ".metadata").write_bytes(b"where what is")
        (folder / "sharded" / "__0_0.distcp").write_bytes(bytes(range(200)))
        (folder / "shared.pt").write_bytes(b"shared " * 9)
        (folder / "rank-00000.pt").write_bytes(b"local " * 9)


@pytest.fixture
def paper(tmp_path, monkeypatch):
    monkeypatch.setattr(World, "agree", lambda self, decision: decision)
    monkeypatch.setattr(World, "gather", lambda self, mine: [mine])
    monkeypatch.setattr(World, "new_group", lambda self: None)
    monkeypatch.setattr(Checkpoints, "PAUSE", 0.0)
    return Paper(parse(["--out", str(tmp_path)]), ALONE, {"seed": 1})


def truncate(path):
    file = path / "sharded" / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:-1])


def flip(path, name="shared.pt", bit=77):
    content = bytearray((path / name).read_bytes())
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    (path / name).write_bytes(content)


def lie(path):
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["world_size"] = 8
    (path / "manifest.json").write_text(json.dumps(manifest))


def rename(path):
    older = path.with_name("step-00000001")
    shutil.copytree(older, path, dirs_exist_ok=True)


DAMAGES = {
    "truncated": (truncate, "sharded/__0_0.distcp has 199 bytes instead of 200"),
    "bit-flipped": (flip, "shared.pt does not match its checksum"),
    "file missing": (lambda p: (p / "rank-00000.pt").unlink(), "rank-00000.pt is missing"),
    "no manifest": (lambda p: (p / "manifest.json").unlink(), "manifest.json is missing"),
    "empty manifest": (
        lambda p: (p / "manifest.json").write_bytes(b""),
        "manifest.json is not readable",
    ),
    "edited manifest": (lie, "manifest.json does not match its own checksum"),
    "another step's": (rename, "its manifest is that of step 1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_older_one_taken(paper, damage, capsys):
    act, reason = DAMAGES[damage]
    paper.save(1, None)
    paper.save(2, None)
    act(paper.path(2))
    with pytest.raises(Invalid, match=reason):
        paper.validate(paper.path(2))
    assert paper.newest_valid() == paper.path(1)
    assert capsys.readouterr().out == f"refused step-00000002: {reason}\n"


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 4), st.integers(0, 2000))
def test_any_flipped_bit_is_found(paper, which, bit):
    shutil.rmtree(paper.folder, ignore_errors=True)
    paper.save(5, None)
    names = sorted(p for p in paper.path(5).rglob("*") if p.is_file())
    flip(paper.path(5), names[which].relative_to(paper.path(5)), bit)
    with pytest.raises(Invalid):
        paper.validate(paper.path(5))


def test_no_checkpoint_is_no_error(paper):
    assert paper.newest_valid() is None


def test_none_valid_stops(paper):
    paper.save(1, None)
    flip(paper.path(1))
    with pytest.raises(Refused, match=r"none of the 1 checkpoints in .* is valid"):
        paper.newest_valid()


def test_another_world_size_is_refused_by_both_names(paper):
    paper.save(1, None)
    paper.world = World(0, 4, torch.device("cpu"))
    told = "saved by a world size of 1, this run has a world size of 4"
    with pytest.raises(Refused, match=told):
        paper.newest_valid()


def test_another_world_size_is_welcome_where_the_run_is_elastic(paper):
    paper.save(1, None)
    paper.world, paper.config = World(0, 4, torch.device("cpu")), replace(paper.config, global_batch=8)
    assert paper.newest_valid() == paper.path(1)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_whole_means_with_the_parts_of_all_who_saved_it(paper, size, capsys):
    """However many have come back; who is not there today is missed in the checkpoint all the same."""
    paper.config = replace(paper.config, global_batch=8)
    paper.save(1, None)
    paper.world = World(0, 2, torch.device("cpu"))
    paper.save(2, None)  # on paper, only rank 0 writes
    paper.world = World(0, size, torch.device("cpu"))
    assert paper.newest_valid() == paper.path(1)
    assert capsys.readouterr().out == "refused step-00000002: the part of rank 1 is missing\n"


def test_another_configuration_is_refused(paper):
    paper.save(1, None)
    paper.about = {"seed": 2}
    with pytest.raises(Refused, match="another configuration: seed was 1, is 2"):
        paper.newest_valid()


def test_pruned_by_number_across_a_power_of_ten(paper):
    for step in (99_999_980, 99_999_990, 100_000_000, 100_000_010):  # names of 8 and of 9 digits
        paper.save(step, None)
    assert [int(p.name[5:]) for p in paper.newest_first()] == [100_000_010, 100_000_000, 99_999_990]


def test_pruning_spares_what_was_just_published(paper):
    """A refused newer checkpoint must not push the good ones out."""
    paper.keep = 1
    paper.save(10, None)
    paper.save(40, None)
    paper.save(20, None)
    assert [p.name for p in paper.newest_first()] == ["step-00000040", "step-00000020"]


def test_saving_over_a_refused_checkpoint_replaces_it(paper):
    paper.save(1, None)
    flip(paper.path(1))
    paper.save(1, None)
    assert paper.newest_valid() == paper.path(1)


def test_left_overs_of_a_crashed_save_are_no_checkpoints_and_go(paper, monkeypatch):
    paper.save(1, None)
    monkeypatch.setattr(paper, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        paper.save(2, None)
    assert sorted(p.name for p in paper.folder.iterdir()) == [".tmp-step-00000002", "step-00000001"]
    assert paper.newest_valid() == paper.path(1)
    assert [p.name for p in paper.folder.iterdir()] == ["step-00000001"]


def test_loading_never_unpickles_code(tmp_path):
    torch.save({"a": Path("anything but numbers")}, tmp_path / "bad.pt")
    with pytest.raises(Exception, match="Weights only load failed"):
        read_tensors(tmp_path / "bad.pt")


def test_published_once_and_gone_now_is_refused(paper):
    paper.save(1, None)
    shutil.rmtree(paper.folder)
    with pytest.raises(Refused, match=r"checkpoints are missing: .* is the volume mounted\? remove .*run\.json"):
        paper.newest_valid()
    paper.marker.unlink()
    assert paper.newest_valid() is None


def test_a_crash_before_the_first_is_published_forbids_nothing(paper, monkeypatch):
    monkeypatch.setattr(paper, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        paper.save(1, None)
    assert paper.newest_valid() is None


def test_a_crash_right_after_it_is_made_up_for(paper, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(paper, "write_marker", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            paper.save(1, None)
    assert paper.newest_valid() == paper.path(1) and paper.marker.exists()


def test_who_may_always_start_from_scratch_does(paper, monkeypatch):
    monkeypatch.setattr(Paper, "may_start_from_scratch", lambda self: True, raising=False)
    paper.save(1, None)
    shutil.rmtree(paper.folder)
    assert paper.newest_valid() is None
