"""Which files a run that began late must have left behind."""

from chaoskit.engine.windows.left_files import kind, listed, names_below, unlike, varying
from tests.history_writer import Writer


def run(*names):
    return Writer().launch().live().exit(0).say("files", launch=0, files=[[name, 1] for name in names]).history()


def test_what_differs_from_run_to_run_does_not_count():
    runs = [run("step-60.pt", f"events.{n}.host", f"{n:032x}.bin", "log.txt") for n in (1731000000, 1731000055)]
    kinds = varying(runs)
    assert kinds == {"events.#.host", "#.bin"} and kind("step-60.pt") == "step-#.pt"
    before, after = {"step-20.pt", "events.1731000000.host"}, {"step-20.pt", "events.1731000099.host"}
    assert list(unlike(before, after, known=before, varying=kinds)) == []


def test_a_file_that_is_missing_and_one_that_should_be_gone():
    known = {"step-10.pt", "step-20.pt", "step-30.pt", "log.txt"}
    before = {"step-20.pt", "step-30.pt", "log.txt"}
    about = {"known": known, "varying": set()}
    assert list(unlike(before, {*before}, **about)) == []
    assert list(unlike(before, {*before, "log-2.txt"}, **about)) == [], "a log of its own"
    assert list(unlike(before, {"step-20.pt", "log.txt"}, **about)) == ["left no step-30.pt"]
    assert list(unlike(before, {*known}, **about)) == ["left step-10.pt"]


def test_names_are_those_of_all_files_below(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "1.pt").touch()
    (tmp_path / "latest").symlink_to("a/b/1.pt")
    assert names_below(tmp_path) == {"a/b/1.pt", "latest"}
    assert listed(run("x", "y/z")) == {"x", "y/z"} and listed(Writer().launch().live().history()) == set()
