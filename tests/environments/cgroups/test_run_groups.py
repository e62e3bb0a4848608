"""The note of a run's groups may be damaged: then nothing is removed, and nothing waits."""

import os

import pytest

from chaoskit.environments.cgroups import run_groups


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, "7", "{", '[["/sys/fs/cgroup/chaoskit-x"]]', '["a\\u0000b"]', '["/etc/chaoskit-x"]', None],
    ids=range(7),
)
def test_a_damaged_note_removes_nothing(tmp_path, content):
    place = tmp_path / run_groups.NAME
    os.mkfifo(place) if content is None else place.write_text(content)
    assert run_groups.remove_left(tmp_path, "x") == []
