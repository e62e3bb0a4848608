"""Who killed a worker, as far as its exit and the kernel's counter tell."""

from __future__ import annotations

import pytest

from chaoskit.cli import killed_worker
from chaoskit.cli.killed_worker import KilledWorker, kernel_kills


@pytest.mark.parametrize(
    ("code", "kills", "trouble", "said"),
    [
        (-9, 2, "exhausted", "was killed by SIGKILL: this experiment has no verdict; those that had ended keep theirs; "
                             "the kernel has killed 2 processes for want of memory meanwhile: run fewer experiments"),
        (-9, 0, "exhausted", "the kernel has not run out of memory: somebody killed it"),
        (None, 0, "exhausted", "a process of chaoskit was killed: this experiment"),
        (-11, 0, "internal", "was ended by SIGSEGV"),
        (3, 0, "internal", "ended with 3"),
    ],
)  # fmt: skip
def test_what_is_said(code, kills, trouble, said):
    result = KilledWorker(code, kills).result("test_kill.py::test_one[a]")
    assert (result.name, result.verdict, result.trouble) == ("test_one[a]", "inconclusive", trouble)
    assert said in result.sentences[0]


def test_a_worker_that_cannot_be_asked(monkeypatch):
    monkeypatch.setattr(killed_worker, "kernel_kills", lambda: 5)
    assert KilledWorker.of(object(), kills_before=3) == KilledWorker(None, 2)


def test_the_kernel_counts(tmp_path):
    (tmp_path / "vmstat").write_text("nr_free_pages 12\noom_kill 7\n")
    assert kernel_kills(tmp_path / "vmstat") == 7 and kernel_kills(tmp_path / "absent") == 0
    assert kernel_kills() >= 0
