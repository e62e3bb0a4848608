"""Counts of soaks are kept, with where and under which load they were made; and no name of a host or a user."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def counts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import kept_counts

    yield kept_counts
    for name in ("kept_counts", "table"):
        sys.modules.pop(name, None)


def test_counts_add_up_over_soaks_and_by_environment(counts, tmp_path):
    file = tmp_path / "soak.jsonl"
    for times, wrong, environment in ((50, 0, "local"), (30, 1, "local"), (20, 0, "docker"), (0, 0, "netns")):
        count = counts.Count("murders", environment)
        with counts.kept(file, count):
            count.times, count.wrong = times, wrong
    found = {figure.name: (figure.value, figure.unit, figure.met) for figure in counts.totals(file)}
    assert found == {
        "so far: murders, docker": (0, "of 20", True),
        "so far: murders, local": (1, "of 80", False),
    }
    line = json.loads(file.read_text().splitlines()[0])
    assert line["cores"] == len(os.sched_getaffinity(0)) and len(line["load"]) == 2 and line["when"].endswith("+00:00")
    assert platform.node() not in file.read_text().replace(line["commit"], "")


def test_an_interrupted_soak_keeps_what_it_has_counted(counts, tmp_path):
    count = counts.Count("murders", "local", times=3)
    with pytest.raises(KeyboardInterrupt), counts.kept(tmp_path / "soak.jsonl", count):
        count.times += 1
        raise KeyboardInterrupt
    assert json.loads((tmp_path / "soak.jsonl").read_text())["times"] == 4


def test_without_a_file_nothing_is_kept(counts):
    with counts.kept(None, counts.Count("murders", "local", times=1)):
        pass
    assert counts.totals(None) == []


def test_the_kept_file_of_the_repository_can_be_read(counts):
    assert all(figure.target == "<= 0" for figure in counts.totals(counts.FILE))
