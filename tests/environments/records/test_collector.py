"""The collector: whole lines, only what is new, from every host, whatever becomes of a host meanwhile."""

from __future__ import annotations

import json

import pytest

from chaoskit.environments.records import collector
from chaoskit.environments.records.collector import DirectoryPerHost, MountedFiles, SharedDirectory
from chaoskit.protocol.events import read_events


@pytest.fixture
def hosts(tmp_path):
    """Two hosts' directories, by name."""
    made = {name: tmp_path / name for name in ("a", "b")}
    for directory in made.values():
        (directory / "events").mkdir(parents=True)
        (directory / "logs").mkdir()
    return made


@pytest.fixture
def collect(tmp_path, hosts):
    (tmp_path / "run" / "events").mkdir(parents=True)
    return DirectoryPerHost(tmp_path / "run", lambda: {n: MountedFiles(d) for n, d in hosts.items()}).collect


@pytest.fixture
def events(tmp_path):
    """The lines of an event file that has been brought."""
    return lambda name: (tmp_path / "run" / "events" / name).read_text().splitlines()


def line(i):
    return json.dumps({"i": i, "t": float(i), "e": "told"}) + "\n"


def test_a_shared_directory_needs_nothing():
    SharedDirectory().collect()


def test_two_hosts_may_give_the_same_name(hosts, collect, events):
    for name, directory in hosts.items():
        (directory / "events" / "rank-0-0-0-7.jsonl").write_text(line(ord(name)))
    collect()
    assert events("rank-0-0-0-7.a.jsonl") == [line(ord("a")).strip()]
    assert events("rank-0-0-0-7.b.jsonl") == [line(ord("b")).strip()]


def test_only_whole_lines_come_and_each_once(hosts, collect, events, tmp_path):
    source = hosts["a"] / "events" / "rank-0.jsonl"
    source.write_text(line(0) + line(1)[:10])
    collect()
    assert len(events("rank-0.a.jsonl")) == 1
    collect()
    assert len(events("rank-0.a.jsonl")) == 1
    with source.open("a") as file:
        file.write(line(1)[10:] + line(2))
    collect()
    found = list(read_events(tmp_path / "run" / "events" / "rank-0.a.jsonl"))
    assert [event.t for event in found] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("piece", [1, 7, 31, 1000])
def test_lines_longer_than_a_piece(hosts, collect, events, monkeypatch, piece):
    monkeypatch.setattr(collector, "_PIECE", piece)
    text = "".join(line(i) for i in range(20)) + json.dumps({"long": "x" * 500}) + "\n"
    source = hosts["a"] / "events" / "rank-0.jsonl"
    source.write_text(text + '{"cut')
    (hosts["a"] / "logs" / "x.log").write_text("no end of line " * 10)
    collect()
    assert events("rank-0.a.jsonl") == text.splitlines()
    collect()
    assert events("rank-0.a.jsonl") == text.splitlines()


def test_logs_come_as_they_are(hosts, collect, tmp_path):
    log = hosts["b"] / "logs" / "ranks" / "launch-0" / "b" / "0" / "stdout.log"
    log.parent.mkdir(parents=True)
    log.write_text("half a li")
    collect()
    with log.open("a") as file:
        file.write("ne\n")
    collect()
    assert (tmp_path / "run" / "logs" / "ranks" / "launch-0" / "b" / "0" / "stdout.log").read_text() == "half a line\n"


def test_a_host_that_is_away_has_lost_nothing(hosts, collect, events):
    source = hosts["a"] / "events" / "rank-0.jsonl"
    source.write_text(line(0))
    collect()
    away = hosts["a"].rename(hosts["a"].with_name("away"))
    collect()
    assert len(events("rank-0.a.jsonl")) == 1
    away.rename(hosts["a"])
    with source.open("a") as file:
        file.write(line(1))
    collect()
    assert len(events("rank-0.a.jsonl")) == 2


def test_a_host_that_fails_in_the_middle_goes_on_where_it_was(tmp_path, hosts, events):
    class Flaky(MountedFiles):
        fails = False

        def read(self, name, offset, most):
            if self.fails:
                raise ConnectionError("away")
            return super().read(name, offset, most)

    flaky = Flaky(hosts["a"])
    collected = DirectoryPerHost(tmp_path / "run", lambda: {"a": flaky})
    source = hosts["a"] / "events" / "rank-0.jsonl"
    source.write_text(line(0))
    collected.collect()
    source.write_text(line(0) + line(1))
    flaky.fails = True
    collected.collect()
    flaky.fails = False
    collected.collect()
    assert events("rank-0.a.jsonl") == [line(0).strip(), line(1).strip()]


def test_a_file_that_was_begun_again_is_brought_again(hosts, collect, events):
    source = hosts["a"] / "events" / "rank-0.jsonl"
    source.write_text(line(0) + line(1))
    collect()
    source.write_text(line(5))
    collect()
    assert events("rank-0.a.jsonl") == [line(5).strip()]
