"""The journal names what may be in the cluster, whenever chaoskit dies."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.kubernetes import intents
from chaoskit.environments.kubernetes.api_kinds import JOBS, PODS
from chaoskit.environments.kubernetes.intents import Intent, IntentJournal, left


def test_what_was_intended_may_be_there_until_the_server_has_refused_it(tmp_path):
    path = tmp_path / "journal"
    journal = IntentJournal(path)
    assert left(path) == ()
    journal.intend(JOBS, "staging", "trainer")
    assert left(path) == (Intent("jobs.batch", "staging", "trainer"),)
    journal.intend(PODS, "staging", "helper")
    journal.made(JOBS, "staging", "trainer", "u1")
    journal.absent(PODS, "staging", "helper")
    (one,) = left(path)
    assert one.uid == "u1" and one.removal == "kubectl delete jobs.batch trainer --namespace staging"
    journal.done()
    assert left(path) == ()
    journal.close()


@given(st.integers(0, 200))
def test_a_line_that_was_cut_short_costs_no_other(cut):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "journal"
        journal = IntentJournal(path)
        for pod in ("a", "b"):
            journal.intend(PODS, "staging", pod)
        journal.close()
        content = path.read_bytes()
        path.write_bytes(content[:cut])
        again = IntentJournal(path)
        again.intend(PODS, "staging", "c")
        again.close()
        names = [one.name for one in left(path)]
        assert names[-1] == "c" and names[:-1] == ["a", "b"][: (content[:cut] + b"\n").count(b"}\n")]


def test_each_line_is_on_the_disk_before_it_returns(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync
    monkeypatch.setattr(intents.os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    journal = IntentJournal(tmp_path / "journal")
    journal.intend(PODS, "staging", "a")
    journal.close()
    assert synced == [str(tmp_path / "journal"), str(tmp_path)]


@pytest.mark.parametrize(
    "line",
    [
        '{"do":"intend","resource":[],"namespace":"ours","name":"a"}',
        '{"do":"intend","resource":"pods","namespace":7,"name":"a"}',
        '{"do":"made","resource":"pods","namespace":"ours","name":"a","uid":{}}',
        '{"do":"forged","resource":"pods","namespace":"ours","name":"a"}', "[" * 100_000, "7", "\0",
    ],
    ids=range(7),
)  # fmt: skip
def test_a_damaged_line_is_skipped(tmp_path, line):
    path = tmp_path / "journal"
    journal = IntentJournal(path)
    journal.intend(PODS, "staging", "a")
    journal.close()
    path.write_text(f"{line}\n{path.read_text()}{line}\n")
    assert left(path) == (Intent("pods", "staging", "a"),)


def test_what_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(OSError, match="is a FIFO"):
        left(tmp_path / "journal")
