"""`chaoskit compare`: what names a suite, what cannot be one, what is written, and the exit codes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from chaoskit.cli import main
from chaoskit.engine.run_store import Store
from chaoskit.report.machine import json_report
from chaoskit.studies.nights.archive import Archive
from tests.two_suites import baseline, drifted, result, suite

A, B = result("test_a"), result("test_b")
BAD = replace(B, verdict="fail", codes=("hang",), sentences=("Rank 1 hung.",))


@pytest.fixture
def chaoskit(tmp_path, monkeypatch, capsys):
    """Call it in an empty directory; it answers with the exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        try:
            code = main.main(["compare", *map(str, args)])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def files(tmp_path):
    """The old suite, an equal one, and one that is worse, as `--json` writes them."""
    parted = {"ref": drifted(baseline(), since=4)}
    made = {
        "old": suite(A, B), "same": suite(A, B, id="later"), "worse": suite(A, BAD),
        "parted": suite(A, B, baselines=parted), "less": suite(A), "other": suite(result("test_z")),
    }  # fmt: skip
    paths = {}
    for name, one in made.items():
        paths[name] = tmp_path / f"{name}.json"
        json_report.write(one.results, str(paths[name]), suite=one)
    return paths


@pytest.fixture
def stored(tmp_path):
    """Two suites in the store of this directory, the first of which passed; their ids."""
    archive = Archive(Store(tmp_path / ".chaoskit"))
    names = []
    for found in ([A, B], [A, BAD]):
        writer = archive.begin(["chaoskit", "run"])
        for one in found:
            writer.add(replace(one, references=()))
        names.append(writer.end().id)
    return names


@pytest.mark.parametrize(("new", "code"), [("same", 0), ("worse", 1), ("parted", 1), ("less", 3)])
def test_the_exit_code(chaoskit, files, new, code):
    got, out, err = chaoskit(files["old"], files[new])
    assert got == code and not err
    assert out.splitlines()[-1].startswith({0: "NOTHING IS WORSE", 1: "WORSE", 3: "INCONCLUSIVE"}[code])


def test_ids_their_beginnings_and_last(chaoskit, stored):
    old, new = stored
    assert chaoskit(old, new)[0] == chaoskit(old, "last")[0] == 1
    assert chaoskit(new, old)[0] == 0 and chaoskit("last", new)[0] == 0
    assert chaoskit(f".chaoskit/suites/{old}.jsonl", "last")[0] == 1


def test_another_store(chaoskit, stored, tmp_path):
    (tmp_path / ".chaoskit").rename(tmp_path / "elsewhere")
    assert chaoskit(*stored)[0] == 2
    assert chaoskit(*stored, "--dir", "elsewhere")[0] == 1


def test_json_and_a_page_are_written(chaoskit, files):
    code, out, _ = chaoskit(files["old"], files["worse"], "--json", "said.json", "-o", "pages/it.html")
    assert code == 1 and "WORSE" in out
    assert json.loads(Path("said.json").read_text())["exit_code"] == 1
    assert "Rank 1 hung." in Path("pages/it.html").read_text()


def test_standard_output_is_jsons_alone(chaoskit, files):
    code, out, err = chaoskit(files["old"], files["parted"], "--json", "-")
    assert code == 1 and json.loads(out)["references"][0]["step"] == 4 and "WORSE" in err


def test_slower_is_a_failure_if_asked_for(chaoskit, tmp_path):
    old = [result(f"test_{i}") for i in range(12)]
    slow = [replace(one, launch_seconds=2.0 + i / 10) for i, one in enumerate(old)]
    for name, found in (("old", old), ("slow", slow)):
        json_report.write(found, str(tmp_path / f"{name}.json"), suite=suite(*found))
    assert chaoskit("old.json", "slow.json")[0] == 0
    code, out, _ = chaoskit("old.json", "slow.json", "--times", "--json", "said.json")
    assert (
        code == 1
        and out.splitlines()[-1].startswith("WORSE")
        and json.loads(Path("said.json").read_text())["exit_code"] == 1
    )
    assert chaoskit("slow.json", "old.json", "--times")[0] == 0


def bad_inputs():
    """What is given for B, by what is wrong with it: how it is made from a good file, and what must be said."""
    return {
        "nothing of this name": (lambda path: path.unlink(), "there is no suite"),
        "a directory": (lambda path: (path.unlink(), path.mkdir()), "there is no suite"),
        "an empty file": (lambda path: path.write_text(""), "is not a suite of chaoskit"),
        "something else": (lambda path: path.write_bytes(b"\x00\xff\x00"), "is not a suite of chaoskit"),
        "other JSON": (lambda path: path.write_text('{"name": "x"}'), "not from chaoskit"),
        "a list": (lambda path: path.write_text("[1, 2]"), "is not a suite of chaoskit"),
        "half a file": (lambda path: path.write_text(path.read_text()[:-200]), "is not a suite of chaoskit"),
        "another schema": (_with(schema=2), "of schema 2"),
        "no experiments": (_with(experiments=[]), "has no experiment"),
        "experiments of another kind": (_with(experiments=[{"nome": "test_a"}]), "is damaged"),
        "damaged baselines": (_with(baselines={"ref": {"job": 1}}), "is damaged"),
        "no common experiment": (
            lambda path: shutil.copy(path.with_name("other.json"), path), "no common experiment"
        ),
    }  # fmt: skip


def _with(**fields):
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("what", bad_inputs())
@pytest.mark.parametrize("side", [0, 1])
def test_bad_input_is_told_in_one_line(chaoskit, files, what, side):
    spoil, told = bad_inputs()[what]
    spoil(files["same"])
    pair = [files["old"], files["same"]]
    code, out, err = chaoskit(*(pair if side else pair[::-1]))
    assert code == 2 and not out and told in err and err.startswith("chaoskit: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "code", "told"),
    [
        (lambda lines: [lines[0].replace('"format":1', '"format":7'), *lines[1:]], 2, "has format 7"),
        (lambda lines: lines[1:], 2, "is not a suite of chaoskit"),
        (lambda lines: lines[:1], 2, "has no experiment"),
        (lambda lines: [lines[0], lines[1][:-30]], 2, "has no experiment"),
        (lambda lines: lines[:2], 3, "did not finish (running)"),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], 3, "did not finish (running)"),
        (lambda lines: [*lines[:-1], '{"e": "end"}'], 2, "is damaged"),
    ],
)
def test_a_store_that_is_half_written(chaoskit, stored, change, code, told):
    path = Path(f".chaoskit/suites/{stored[0]}.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())))
    got, out, err = chaoskit(stored[0], stored[0])
    assert got == code and told in out + err


def test_a_suite_copied_without_its_baselines(chaoskit, tmp_path):
    archive = Archive(Store(tmp_path / "store"))
    writer = archive.begin(["chaoskit"])
    writer.add(A)  # the run was deleted, so its reference is not kept
    writer.end()
    code, out, _ = chaoskit(writer.path, writer.path)
    assert code == 3 and "no stored reference for test_a" in out


def test_the_beginning_of_two(chaoskit, stored):
    code, _, err = chaoskit("2", "last")
    assert code == 2 and "give a longer prefix" in err


def test_a_store_without_suites(chaoskit):
    code, _, err = chaoskit("last", "last")
    assert code == 2 and "contains no suite" in err


def test_what_cannot_be_written(chaoskit, files):
    assert chaoskit(files["old"], files["same"], "--json", "nowhere/x.json")[0] == 2
    Path("there").mkdir()
    code, _, err = chaoskit(files["old"], files["same"], "-o", "there")
    assert code == 2 and "-o" in err


def test_one_suite_is_not_enough(chaoskit, files):
    code, _, err = chaoskit(files["old"])
    assert code == 2 and "B" in err
