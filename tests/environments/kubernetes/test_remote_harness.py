"""Parts of chaoskit in a pod: its output is shown once whatever breaks off, its files go where they may."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaoskit.environments.kubernetes import objects, run_owner
from chaoskit.environments.kubernetes.api_kinds import PODS
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.remote_harness import _Output
from chaoskit.environments.kubernetes.returned_files import pack, unpack
from chaoskit.errors import ChaoskitError
from tests.environments.kubernetes.cluster_objects import pod

MARK = "chaoskit-has-ended-0123"


@given(st.binary(max_size=60), st.lists(st.integers(1, 9)), st.lists(st.integers(0, 80), max_size=4))
def test_each_byte_is_shown_once_however_often_the_log_breaks_off(text, sizes, breaks):
    whole, shown = text + f"\n{MARK} 3\n".encode(), []
    output = _Output(MARK, shown.append)

    def pieces(until):
        at, widths = 0, list(sizes)
        while at < until:
            width = widths.pop(0) if widths else 7
            yield whole[at : min(until, at + width)]
            at += width

    for end in [*breaks, len(whole)]:
        if output.code is None:
            output.take_again(pieces(min(end, len(whole))))
    assert output.code == 3 and b"".join(shown) == text


def archive(*members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content) if kind == tarfile.REGTYPE else 0
            info.linkname = "/etc/passwd"
            made.addfile(info, io.BytesIO(content) if info.size else None)
    return packed.getvalue()


def test_files_go_where_they_were_asked_for(tmp_path):
    inside = tmp_path / "inside"
    (inside / "report" / "runs").mkdir(parents=True)
    (inside / "json").write_text("{}")
    (inside / "summary").write_text("new\n")
    (inside / "report" / "runs" / "a.html").write_text("page")
    (inside / "link").symlink_to("/etc/passwd")
    (tmp_path / "sum.md").write_text("old\n")
    wanted = {"json": tmp_path / "found.json", "report": tmp_path / "pages", "summary": tmp_path / "sum.md"}
    unpack(pack(inside), wanted, appended=frozenset({"summary"}))
    assert (tmp_path / "found.json").read_text() == "{}" and (tmp_path / "sum.md").read_text() == "old\nnew\n"
    assert (tmp_path / "pages" / "runs" / "a.html").read_text() == "page"


@pytest.mark.parametrize(
    "member",
    [
        ("../evil", tarfile.REGTYPE, b"x"), ("report/../../evil", tarfile.REGTYPE, b"x"),
        ("evil", tarfile.REGTYPE, b"x"),
        ("/evil", tarfile.REGTYPE, b"x"), ("json", tarfile.SYMTYPE, b""), ("report/a", tarfile.LNKTYPE, b""),
        ("report/pipe", tarfile.FIFOTYPE, b""),
    ],
)  # fmt: skip
def test_nothing_else_is_written(tmp_path, member):
    wanted = {"json": tmp_path / "here" / "found.json", "report": tmp_path / "here" / "pages"}
    with pytest.raises(ChaoskitError, match="which nobody has asked for"):
        unpack(archive(member), wanted)
    assert list(tmp_path.rglob("*")) == []


def test_a_link_in_the_directory_of_the_pages_is_not_followed(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "pages" / "runs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ChaoskitError, match="is a link to another place"):
        unpack(archive(("report/runs/a", tarfile.REGTYPE, b"x")), {"report": tmp_path / "pages"})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("chaoskit.environments.kubernetes.returned_files.MOST", 3)
    with pytest.raises(ChaoskitError, match="more than 3 bytes"):
        unpack(archive(("json", tarfile.REGTYPE, b"four")), {"json": tmp_path / "found.json"})
    assert not (tmp_path / "found.json").exists()


def test_what_a_pod_goes_on_with_is_not_swept(connection, cluster, api_server, tmp_path, monkeypatch):
    """The machine that has started it is dead; the pod runs, and then it has ended."""
    monkeypatch.setattr(run_owner.owner, "is_dead", lambda record: True)
    place = {"namespace": cluster.namespace, "run_id": "h1", "run_dir": tmp_path}
    made = RunObjects(connection, **place, harness="chaoskit-h1")
    made.create(PODS, pod("chaoskit-h1"), role="harness", node=0)
    pods = api_server.catalogue.named("pods")
    for phase, swept in (("Pending", 0), ("Running", 0), ("Failed", 1)):
        found = api_server.store.get(pods, cluster.namespace, "chaoskit-h1")
        api_server.store.put(pods, {**found, "status": {"phase": phase}})
        assert len(objects.sweep(connection, cluster.namespace)) == swept, phase


@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["run"], 2)])
def test_inside_the_pod(tmp_path, words, code):
    """Runs chaoskit, says how it ended, and waits until somebody ends the wait."""
    script = (
        "import sys; from chaoskit.environments.kubernetes.harness_inside import run_inside\n"
        "program = [sys.executable, '-m', 'chaoskit']\n"
        "sys.exit(run_inside(sys.argv[3:], mark='m', program=program, results=sys.argv[1], packed=sys.argv[2]))"
    )
    results, packed = str(tmp_path / "results"), tmp_path / "results.tar"
    words = [sys.executable, "-c", script, results, str(packed), *words]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path) as process:
        lines = iter(process.stdout.readline, "")
        assert next(line for line in lines if line.startswith("m ")) == f"m {code}\n"
        assert packed.exists() and process.poll() is None
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=30) == code
