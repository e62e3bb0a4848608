"""`chaoskit history` on stores as sessions leave them: whole, killed half-way, damaged, of another format, empty."""

import json
from dataclasses import replace

import pytest

from chaoskit.cli import main
from chaoskit.errors import ExitCode
from chaoskit.studies.nights.archive import Archive
from chaoskit.studies.nights.baseline import Baseline
from chaoskit.studies.nights.conditions import Conditions
from tests.studies.nights.nights import JOB, keep, night, result, timed, verdicts


@pytest.fixture
def history(tmp_path, capsys):
    """Keep suites, and call the command; the exit code, what it said, and what it complained of."""

    def call(*words, suites=None):
        if suites is not None:
            keep(tmp_path, suites)
        code = main.main(["history", "--dir", str(tmp_path), *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_a_store_of_nights_that_passed(history):
    code, out, err = history(suites=verdicts("pppp"))
    assert code == ExitCode.PASS and err == ""
    assert "✓✓✓✓" in out and out.endswith("Nothing changed (4 nights)\n")


@pytest.mark.parametrize(
    ("letters", "code"), [("ppf", 1), ("ppi", 3), ("ffp", 0), ("pfp", 0), ("fff", 0), ("pfpfff", 1), ("s", 0)]
)
def test_the_exit_code_is_of_what_became_red(history, letters, code):
    assert history(suites=verdicts(letters))[0] == code


def test_a_good_and_a_bad_script_in_turn(history):
    """Equal uninterrupted runs: the exit code is that of the last script, and the script is named."""
    scripts = {letter: Conditions({}, {"train.py": digest}) for letter, digest in (("p", "aa"), ("f", "bb"))}
    nights = [night(at, result(letter), conditions=scripts[letter]) for at, letter in enumerate("pfpfpf")]
    code, out, _ = history(suites=nights)
    assert code == ExitCode.FAIL and "RED test_kill" in out and "FLAKY" not in out
    assert "changed since the previous night: train.py aa -> bb" in out
    code, out, _ = history("--last", 1)
    assert code == ExitCode.PASS
    history(suites=[night(6, result(), conditions=scripts["p"])])
    code, out, _ = history()
    assert code == ExitCode.PASS and "GREEN test_kill" in out and "FLAKY" not in out


def test_times_count_if_they_are_asked_to(history):
    assert history(suites=timed(30, experiments=6, step=(2.0, 20)))[0] == ExitCode.PASS
    assert history("--times")[0] == ExitCode.FAIL
    assert history("--times", "--last", 15)[0] == ExitCode.PASS


def test_a_session_that_was_killed_counts_with_what_it_had(history, tmp_path):
    keep(tmp_path, verdicts("ppf"))
    last = Archive(keep(tmp_path, [])).last()
    lines = last.read_text().splitlines()
    last.write_text("\n".join(lines[:-1]) + '\n{"e": "result", "na')
    code, out, err = history()
    assert code == ExitCode.FAIL and "✓✓✗" in out
    assert (
        err
        == f"chaoskit: suite {last.stem} did not end, so results may be missing: chaoskit was killed, or runs\n"
    )


def test_what_cannot_be_read_is_named_and_left_out(history, tmp_path):
    paths = Archive(keep(tmp_path, verdicts("pppff"))).all()
    paths[0].write_text("")
    paths[1].write_text(paths[1].read_text().replace('"format":1', '"format":99'))
    paths[3].write_text(paths[3].read_text().replace('"verdict":"fail"', '"verdict":"odd"'))
    code, out, err = history("--json", tmp_path / "out.json")
    assert code == ExitCode.FAIL and "✓✗" in out and "(2 nights)" in out
    lines = err.splitlines()
    assert len(lines) == 3 and all(line.startswith("chaoskit: suite ignored: ") for line in lines)
    assert all(path.name in line for path, line in zip([paths[0], paths[1], paths[3]], lines, strict=True))
    assert len(json.loads((tmp_path / "out.json").read_text())["damaged"]) == 3


def test_a_baseline_that_is_damaged_costs_its_suites(history, tmp_path):
    store = keep(tmp_path, verdicts("pp"))
    path = Archive(store).last()
    path.write_text(path.read_text().replace('"baselines":{}', '"baselines": {"ref": "xy"}'))
    (path.parent / "baselines" / "xy.json").write_text("{")
    code, out, err = history()
    assert code == ExitCode.PASS and "xy.json is damaged" in err and "(1 night)" in out


def test_versions_are_those_of_the_stored_uninterrupted_run(history, tmp_path):
    store = keep(tmp_path, verdicts("pp"))
    for at, version in enumerate(("2.13.0", "2.14.1")):
        baseline = Baseline(("train.py",), 1, True, {0: {"loss": ["0x1p+0"]}}, settings={"torch": version})
        folder = Archive(store).directory
        (folder / "baselines" / f"{baseline.digest}.json").write_text(json.dumps(baseline.to_json()))
        path = folder / f"{night(at).id}.jsonl"
        path.write_text(path.read_text().replace('"baselines":{}', f'"baselines": {{"ref": "{baseline.digest}"}}'))
    _, out, _ = history()
    assert "changed 2026-01-02 02:30 (suite 20260102-023000-001): torch 2.13.0 -> 2.14.1" in out


def test_a_suite_without_an_experiment(history):
    code, out, _ = history(suites=[night(0), *verdicts("pp")[1:]])
    assert code == ExitCode.PASS and "·✓" in out
    assert history(suites=[replace(night(5), id="20250101")])[0] == ExitCode.PASS


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "contains no suite: run 'chaoskit run' or pytest first"),
        (("--json", "nowhere/x.json"), "--json: 'nowhere/x.json' is in"),
        (("-o", "nowhere/x.html"), "-o: 'nowhere/x.html' is in"),
    ],
)
def test_there_is_nothing_to_read_or_nowhere_to_write(history, words, complaint):
    code, _, err = history(*words)
    assert code == ExitCode.USAGE and complaint in err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-k", "nobody"), "-k 'nobody' selects no experiment"),
        (("-k", "a and"), "-k 'a and' is not a valid expression"),
        (("--since", "2027-01-01"), "contains no readable suite since 2027-01-01"),
    ],
)
def test_what_selects_nothing_is_a_mistake(history, words, complaint):
    code, _, err = history(*words, suites=verdicts("pp"))
    assert code == ExitCode.USAGE and complaint in err


@pytest.mark.parametrize("words", [("--since", "yesterday"), ("--last", "0"), ("--last", "x"), ("more",)])
def test_options_are_checked(history, words):
    with pytest.raises(SystemExit) as ended:
        history(*words)
    assert ended.value.code == ExitCode.USAGE


def test_only_some_nights_and_some_experiments(history):
    suites = [night(at, result(), result("f", "test_[odd-name]")) for at in range(4)]
    assert "(2 nights)" in history("--last", 2, suites=suites)[1]
    assert "(3 nights)" in history("--since", "2026-01-02")[1]
    for expression in ("kill", "not odd", "KILL and not name", "test_kill or nobody"):
        _, out, _ = history("-k", expression)
        assert "test_kill" in out and "odd" not in out


def test_json_on_standard_output_is_alone_there(history):
    code, out, err = history("--json", "-", suites=verdicts("pf"))
    assert code == ExitCode.FAIL and json.loads(out)["turns"][0]["kind"] == "red"
    assert f"job {JOB}" in err


def test_a_page(history, tmp_path):
    history("-o", tmp_path / "history.html", suites=verdicts("pf"))
    text = (tmp_path / "history.html").read_text()
    assert text.startswith("<!doctype html>") and "1 experiment became red (2 nights)" in text


def test_metrics_go_to_a_file_or_to_standard_output(history, tmp_path):
    target = tmp_path / "chaoskit.prom"
    code, out, _ = history("--metrics", target, suites=verdicts("ppf"))
    assert code == ExitCode.FAIL and "RED test_kill" in out
    assert 'kind="red"} 1' in target.read_text()
    _, out, err = history("--metrics", "-")
    assert out == target.read_text() and "RED test_kill" in err
    assert history("--metrics", tmp_path)[0] == ExitCode.USAGE
    code, _, err = history("--metrics", "-", "--json", "-")
    assert code == ExitCode.USAGE and "cannot both go to standard output" in err


def test_a_suite_in_the_middle_that_was_deleted_is_missed(history, tmp_path):
    history(suites=verdicts("ppfpp"))
    first, second, third, fourth, last = Archive(keep(tmp_path, [])).all()
    third.unlink()
    code, out, err = history()
    assert code == ExitCode.PASS and out
    assert err.splitlines() == [
        f"chaoskit: suite missing: {third.stem}, which began before {fourth.stem}, is not in {third.parent}: "
        "it was deleted, or it was not copied"
    ]
    assert history("--last", 1)[2] == "", "of suites that are not read nothing is said"
    # Who removes old suites begins with the oldest.
    for old in (first, second):
        old.unlink()
    assert history()[2] == ""
    last.unlink()
    assert history()[2] == "", "what nobody names cannot be missed"


def test_a_suite_of_before_names_none_and_a_forged_name_is_refused(history, tmp_path):
    history(suites=verdicts("ppp"))
    _, second, last = Archive(keep(tmp_path, [])).all()
    head, *rest = last.read_text().splitlines()
    told = json.loads(head)
    assert told["after"] == second.stem
    for after, said in ((None, ""), ("../x", "after must be the name of a file"), (7, "after must be ")):
        new = {**told, "after": after} if after is not None else {k: v for k, v in told.items() if k != "after"}
        last.write_text("\n".join([json.dumps(new), *rest]) + "\n")
        err = history()[2]
        assert (said in err) if said else err == ""
