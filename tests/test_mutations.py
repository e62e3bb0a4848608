"""Damaged stores give a sentence, or a note of what is left out: no internal error, no hang, no wrong pass.

`benchmarks/mutations.py` makes more of them.
"""

import errno
import os
import random
import tempfile

import pytest

from chaoskit.cli import main
from chaoskit.engine import run_store
from chaoskit.engine.run_store import Store
from chaoskit.errors import ExitCode
from chaoskit.studies.nights.archive import Archive
from tests import mutations
from tests.users import IS_ROOT, NOBODY


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    root = tmp_path_factory.mktemp("store") / ".chaoskit"
    return root, mutations.make_store(root), {}


def faults(stored, count, seed, files=None):
    _, own, usual = stored
    draw = random.Random(seed)
    made = [one for _ in range(count) for one in mutations.attempts(draw, files or own, usual)]
    assert len(made) >= count
    return [f"{one.fault}: {one.words[0]} after {one.mutation}: {one.said[-300:]}" for one in made if one.fault]


def test_damaged_files_give_a_sentence(stored):
    assert not faults(stored, 25, seed=1)


@pytest.mark.slow
def test_many_damaged_files_give_a_sentence(stored, tmp_path):
    assert not faults(stored, 150, seed=2)
    assert not faults(stored, 30, seed=3, files=mutations.real_runs(tmp_path / "real"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines.insert(1, "{"), "line 2 is damaged (is no JSON)"),
        (lambda lines: lines.__setitem__(1, lines[1].replace('"steps_lost":5', '"steps_lost":"5"')),
         "line 2 is damaged (steps_lost must be a whole number or null, not '5')"),
        (lambda lines: lines.__delitem__(1), "it has 0 results, and had 1"),
        (lambda lines: lines.__setitem__(0, lines[0].replace("20260103", "20260104")),
         "it is the file of another suite"),
        (lambda lines: lines.__setitem__(-1, lines[-1].replace('"ref":"', '"ref":"../')),
         "baselines.ref must be the name of a file"),
    ],
    ids=["no JSON", "a field", "a result is missing", "another suite", "a path"],
)  # fmt: skip
def test_a_damaged_suite_is_named_with_its_line_and_field(stored, capsys, change, said):
    root, *_ = stored
    path = Archive(Store(root)).last()
    before = path.read_text()
    lines = before.splitlines()
    change(lines)
    try:
        path.write_text("\n".join(lines) + "\n")
        code = main.main(["compare", "last", "last", "--dir", str(root)])
        err = capsys.readouterr().err
        assert code == 2 and said in err and path.name in err
        assert main.main(["history", "--dir", str(root)]) == 0, "the other nights are shown"
        assert "suite ignored" in capsys.readouterr().err
    finally:
        path.write_text(before)


def test_lost_state_whose_run_is_not_known_is_no_pass(stored, capsys):
    root, *_ = stored
    path = Archive(Store(root)).last()
    before = path.read_text()
    try:
        path.write_text(before.replace('"run":', '"ran":'))
        assert main.main(["prove", "--all", "--dir", str(root)]) == ExitCode.INCONCLUSIVE
        assert "the record of its run is gone" in capsys.readouterr().out
    finally:
        path.write_text(before)


def test_a_proof_that_was_added_to_a_killed_suite_is_read(stored):
    root, *_ = stored
    path = Archive(Store(root)).last()
    before = path.read_text()
    try:
        torn = before.splitlines()[0] + '\n{"e": "result", "na\n{"e":"proof","outcome":"proven","sentence":"x"}\n'
        path.write_text(torn)
        suite = Archive(Store(root)).read(path)
        assert suite.status == "running" and [proof.sentence for proof in suite.proofs] == ["x"]
    finally:
        path.write_text(before)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"job":"', """"job":"'"""), "cannot be read: No closing quotation"),
        (lambda text: text.replace('"command":[]', '"command":["chaoskit","run","--\\u001b[31m"]'), "\\x1b[31m"),
    ],
    ids=["quotes", "options"],
)
def test_init_reads_the_last_suite_and_trusts_it_not(stored, tmp_path, monkeypatch, capsys, change, said):
    root, *_ = stored
    path = Archive(Store(root)).last()
    before = path.read_text()
    monkeypatch.chdir(tmp_path)
    try:
        path.write_text(change(before))
        assert main.main(["init", "--dir", str(root)]) == 2
        err = capsys.readouterr().err
        assert said in err and "\x1b" not in err and not list(tmp_path.iterdir())
    finally:
        path.write_text(before)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_store_that_cannot_be_written_is_judged(stored, capsys, monkeypatch, number):
    root, *_ = stored
    good, lost = Store(root).all_runs()

    def refuse(path, content):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(run_store, "write_json", refuse)
    for run_dir, code in ((good, 0), (lost, 1)):
        before = (run_dir / "verdicts.json").read_bytes()
        assert main.main(["analyze", str(run_dir), "--dir", str(root)]) == code
        assert "the verdicts are valid, and are not kept in the store: " in capsys.readouterr().err
        assert (run_dir / "verdicts.json").read_bytes() == before


@pytest.mark.skipif(not IS_ROOT, reason="needs another user")
def test_the_store_of_another_user_is_a_sentence(stored, capsys):
    root, *_ = stored
    run_dir = Store(root).all_runs()[0]
    commands = (["history"], ["compare", "last", "last"], ["analyze", run_dir.name], ["explain", str(run_dir)],
                ["report", "--last-suite", "-o"])  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o777)

        def call(words, user):
            pages = [os.path.join(place, user)] if words[-1] == "-o" else []
            return main.main([*words, *pages, "--dir", str(root)])

        for words in commands:  # as root first: its modules may lie where others cannot look
            call(words, "root")
        capsys.readouterr()
        os.chmod(root, 0o700)
        os.seteuid(NOBODY)
        try:
            for words in commands:
                code = call(words, "nobody")
                out, err = capsys.readouterr()
                assert code == 2 and not out, words
                assert err.startswith("chaoskit: ") and "Permission denied" in err and "of the user root" in err, err
        finally:
            os.seteuid(0)
