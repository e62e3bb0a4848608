"""What a project keeps in its file: which values count, and that every mistake names its line."""

import tomllib
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaoskit.cli import configuration, main, options, selection
from chaoskit.cli.toml_lines import line_of
from chaoskit.cli.toml_text import toml_text
from chaoskit.errors import CODES, FAMILIES, UsageError
from chaoskit.nodes import ClusterPlace

ACCEPT = '[[accept]]\ncode = "rng-not-restored"\nreason = "decided"\n'


def read(tmp_path, own=None, pyproject=None):
    """The configuration of a directory with these files."""
    for name, text in ((configuration.OWN, own), (configuration.PYPROJECT, pyproject)):
        if text is not None:
            (tmp_path / name).write_text(text)
    return configuration.read(tmp_path)


def refused(tmp_path, monkeypatch, **files):
    """What is said of wrong files."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        read(tmp_path, **files)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_everything_that_a_file_may_have(tmp_path):
    found = read(
        tmp_path,
        pyproject="""
[project]
name = "mine"

[tool.chaoskit]
command = "torchrun train.py --out {out}"
resume-args = ["--resume", "{newest:step-*}"]
env = "local"
nodes = "1:2"
timeout = 60
relaunches = 2
keep-going = true
report = "pages"
only = ["resume", "storage"]
workers = 2
fail-on = "problems"

[tool.chaoskit.variables]
OMP_NUM_THREADS = 1

[[tool.chaoskit.accept]]
code = "rng-not-restored"
reason = "decided"
until = 2027-06-01
experiment = "test_nan[gradient-nan]"
""",
    )
    assert found.command == ("torchrun", "train.py", "--out", "{out}")
    assert found.variables == {"OMP_NUM_THREADS": "1"}
    assert found.values == {
        "resume-args": ["--resume", "{newest:step-*}"], "env": "local", "nodes": "1:2", "timeout": 60.0,
        "relaunches": 2, "keep-going": True, "report": "pages", "only": "resume,storage", "workers": "2",
        "fail-on": "problems",
    }  # fmt: skip
    assert found.value("report") == str(tmp_path / "pages") and found.value("json") is None
    (one,) = found.acceptances
    assert (one.code, one.reason, one.until) == ("rng-not-restored", "decided", date(2027, 6, 1))
    assert one.experiment == "test_nan[gradient-nan]" and one.where.endswith("pyproject.toml:21")


def test_every_shared_option_is_a_key():
    assert {option.name for option in options.SHARED} - {"strict", "job-template"} <= configuration.KEYS.keys()


def test_the_job_template_is_a_setting_of_the_pods_and_its_path_counts_from_the_file(tmp_path):
    found = read(tmp_path, own="[kubernetes]\njob-template = 'deploy/job.yaml'\n")
    assert found.pods == {"job_template": str(tmp_path / "deploy" / "job.yaml")}
    place = {"namespace": "n", "volume": "c:/v"}
    assert options.cluster_of({**place, "env": "local"}, found.pods) is None, "it is for pods alone"
    with pytest.raises(UsageError, match=r"deploy/job\.yaml: it cannot be read"):
        options.cluster_of({**place, "env": "kubernetes"}, found.pods)


@pytest.mark.parametrize("files", [{}, {"pyproject": "[project]\n"}, {"pyproject": "not toml at all ="}])
def test_a_project_without_a_table(tmp_path, files):
    assert read(tmp_path, **files) is None


@pytest.mark.parametrize(("typed", "given"), [([], "problems"), (["--fail-on", "weaknesses"], "weaknesses")])
def test_the_command_line_wins_over_what_the_file_fails_on(tmp_path, typed, given):
    args = main.make_parser().parse_args(["run", *typed])
    configuration.apply(args, read(tmp_path, own='fail-on = "problems"\n'))
    assert args.fail_on == given


def test_two_files_that_say_the_same(tmp_path):
    found = read(tmp_path, own="relaunches = 2\n", pyproject="[tool.chaoskit]\nrelaunches = 2\n")
    assert found.values == {"relaunches": 2} and found.file.name == configuration.OWN


WRONG = {
    "unknown key": ("command = 'a {out}'\ntime-out = 3\n", 2, ["'time-out'", "mean 'timeout'"]),
    "underscore": ("resume_args = '-x'\n", 1, ["mean 'resume-args'"]),
    "environment": ("environment = 'netns'\n", 1, ["mean 'env'"]),
    "strict": ("strict = true\n", 1, ["--strict"]),
    "job template": ("job-template = 'job.yaml'\n", 1, ["is a key of the table kubernetes: move it there"]),
    "job template, no file": ("[kubernetes]\njob-template = 3\n", 2, ["the file with the team's own manifest"]),
    "table of the other file": ("[tool.chaoskit]\ncommand = 'x'\n", 1, ["stand at the top"]),
    "negative": ("\ntimeout = -1\n", 2, ["timeout", "-1"]),
    "no number": ("relaunches = 'many'\n", 1, ["relaunches", "number"]),
    "fraction": ("relaunches = 2.5\n", 1, ["relaunches", "2.5"]),
    "boolean": ("controls = true\n", 1, ["controls", "True"]),
    "flag": ("keep-going = 1\n", 1, ["true or false"]),
    "path": ("dir = 3\n", 1, ["quotes"]),
    "env table": ("env = {A = '1'}\n", 1, ["variables"]),
    "no environment": ("env = 'locla'\n", 1, ["locla", "local"]),
    "launch": ("launch = 'hot'\n", 1, [":1: launch: 'hot'"]),
    "nodes": ("nodes = '2:1'\n", 1, [":1: nodes: give", "'2:1'"]),
    "regex": ("log-regex = '('\n", 1, ["log-regex"]),
    "log file alone": ("# first\nlog-file = 'a.log'\n", 2, ["log-regex"]),
    "record every": ("record-every = 0\n", 1, [":1: record-every: ", "whole number from 1, not 0"]),
    "record every text": ("record-every = 'x'\n", 1, [":1: record-every: ", "whole number from 1, not 'x'"]),
    "stops with": ("stops-with = 'zero'\n", 1, [":1: stops-with: ", "'nonzero' or an exit code"]),
    "quotes": ("command = 'torchrun \"x'\n", 1, ["quotes"]),
    "empty command": ("command = ''\n", 1, ["{out}"]),
    "command": ("command = 3\n", 1, ["command"]),
    "area": ("only = ['storag']\n", 1, ["mean 'storage'"]),
    "two selections": ("select = 'x'\nquick = true\n", 2, ["exclude"]),
    "workers": ("workers = 'lots'\n", 1, ["lots"]),
    "variables": ("variables = 'A=1'\n", 1, ["table"]),
    "variable": ("[variables]\nA = '1'\nB = [2]\n", 3, ["'B'"]),
    "accept": ("accept = 'rng-not-restored'\n", 1, ["[[accept]]"]),
    "unknown code": (ACCEPT.replace("rng-", "rgn-"), 2, ["mean 'rng-not-restored'"]),
    "everything": (ACCEPT.replace("rng-not-restored", "*"), 2, ["accept everything"]),
    "pattern": (ACCEPT.replace("rng-not-restored", "rng-*"), 2, ["accept everything"]),
    "no code": ("\n[[accept]]\nreason = 'x'\n", 2, ["accept everything"]),
    "inconclusive": (ACCEPT.replace("rng-not-restored", "probe-blind"), 2, ["proves nothing"]),
    "no reason": ("[[accept]]\ncode = 'hang'\n", 1, ["reason"]),
    "empty reason": ("[[accept]]\ncode = 'hang'\nreason = ' '\n", 3, ["reason"]),
    "date in quotes": (ACCEPT + "until = '2027-06-01'\n", 4, ["without quotes"]),
    "time": (ACCEPT + "until = 2027-06-01T10:00:00\n", 4, ["date", "not 2027-06-01T10:00:00"]),
    "no date": (ACCEPT + "until = 2027-13-01\n", 4, ["2027-13-01 is no date"]),
    "no day": (ACCEPT + "until = 2027-02-30\n", 4, ["2027-02-30 is no date"]),
    "short date": (ACCEPT + "until = 2027-6-1\n", 4, ["2027-6-1 is no date"]),
    "fail-on": ("fail-on = 'nothing'\n", 1, ["fail-on: 'nothing'", "'weaknesses'", "'problems'"]),
    "for one run": ("no_proof = true\n", 1, ["command line alone", "--no-proof"]),
    "verbose": ("verbose = true\n", 1, ["command line alone", "-v"]),
    "key of an acceptance": (ACCEPT + "untill = 2027-06-01\n", 4, ["mean 'until'"]),
    "experiment": (ACCEPT + "experiment = 'test_resum'\n", 4, ["mean 'test_resume'? Name", "node id"]),
    "second entry": (ACCEPT + ACCEPT.replace("rng-not", "rgn-not"), 5, ["mean 'rng-not-restored'"]),
    "twice": (ACCEPT + ACCEPT, 4, ["twice"]),
    "no toml": ("command = 'x'\ncommand = \n", 2, ["not TOML"]),
}


@pytest.mark.parametrize(("text", "line", "said"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_told_with_its_line(tmp_path, monkeypatch, text, line, said):
    message = refused(tmp_path, monkeypatch, own=text)
    assert message.startswith("chaoskit.toml")
    assert f":{line}:" in message or f"line {line}," in message, message
    assert all(part in message for part in said), message


def test_a_mistake_in_pyproject(tmp_path, monkeypatch):
    text = '[tool.other]\nquik = 1\n\n[tool.chaoskit]\nquik = true\n'
    message = refused(tmp_path, monkeypatch, pyproject=text)
    assert message.startswith("pyproject.toml:5:") and "'quick'" in message
    assert "pyproject.toml:2: chaoskit" in refused(tmp_path, monkeypatch, pyproject="[tool]\nchaoskit = 3\n")


def test_two_files_that_disagree(tmp_path, monkeypatch):
    message = refused(tmp_path, monkeypatch, own="\nrelaunches = 1\n", pyproject="[tool.chaoskit]\nrelaunches = 2\n")
    assert "chaoskit.toml:2, pyproject.toml:2" in message and "'relaunches'" in message
    message = refused(tmp_path, monkeypatch, own="", pyproject="[tool.chaoskit]\nrelaunches = 2\n")
    assert "disagree" in message


def test_a_file_that_is_no_text(tmp_path, monkeypatch):
    (tmp_path / configuration.OWN).write_bytes(b"\xff\xfe")
    assert "cannot be read" in refused(tmp_path, monkeypatch)


def test_a_configuration_above_is_found_for_a_hint(tmp_path):
    (tmp_path / configuration.OWN).write_text("relaunches = 1\n")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert configuration.above(deep) == tmp_path and configuration.read(deep) is None


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1), (("t",), 2), (("t", "b"), 3), (("t", "s"), 4), (("t", "c", "d"), 8), (("l", 0, "x"), 11),
        (("l", 1, "x"), 13), (("l", 1, "sub", "y"), 15), (("l", 1, "absent"), 12), (("q w", "z"), 17), (("n",), None),
    ],
)  # fmt: skip
def test_the_line_of_a_key(path, line):
    text = '''a = 1
[t]  # a comment
b = 2
s = """
[no.table]
a = 9
"""
c.d = 3

[[l]]
x = 1
[[l]]
x = 2
[l.sub]
y = 3
["q w"]
z = {i = 1}
'''
    assert tomllib.loads(text)
    assert line_of(text, *path) == line


#: Values as a file may have them, by key.
VALUES = {
    "command": st.lists(st.text(min_size=1), min_size=1),
    "resume-args": st.lists(st.text()),
    "timeout": st.floats(min_value=0.001, max_value=3.2e8) | st.integers(1, 10**6),
    "relaunches": st.integers(0, 99),
    "keep-going": st.booleans(),
    "report": st.text(min_size=1),
    "select": st.text(min_size=1),
}
GOOD_CODES = sorted(code for code in CODES if FAMILIES[code] != "inconclusive")
ENTRIES = st.lists(
    st.tuples(st.sampled_from(GOOD_CODES), st.text(min_size=1).filter(str.strip), st.none() | st.dates()),
    unique_by=lambda entry: entry[0],
    max_size=4,
)


def written(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    return toml_text(value) if isinstance(value, str) else repr(value)


@settings(deadline=None, max_examples=60)
@given(table=st.fixed_dictionaries({}, optional=VALUES), entries=ENTRIES, blank=st.integers(0, 3))
def test_what_is_written_is_read(tmp_path_factory, table, entries, blank):
    tmp_path = tmp_path_factory.mktemp("file")
    lines = ["[tool.chaoskit]"]
    for key, value in table.items():
        lines += [*[""] * blank, f"{key} = {written(value)}"]
    places = []
    for code, reason, until in entries:
        places.append(len(lines) + 1)
        lines += ["[[tool.chaoskit.accept]]", f"reason = {written(reason)}", f'code = "{code}"']
        lines += [f"until = {until}"] if until else []
    found = read(tmp_path, pyproject="\n".join(lines) + "\n")
    assert list(found.command) == table.get("command", [])
    assert found.values == {key: value for key, value in table.items() if key != "command"}
    assert [(one.code, one.until) for one in found.acceptances] == [(code, until) for code, _, until in entries]
    assert [int(one.where.rpartition(":")[2]) for one in found.acceptances] == places


@settings(deadline=None, max_examples=100)
@given(text=st.text())
def test_no_file_makes_an_error_of_another_kind(tmp_path_factory, text):
    tmp_path = tmp_path_factory.mktemp("file")
    (tmp_path / configuration.OWN).write_text(text, encoding="utf-8", errors="replace", newline="")
    try:
        configuration.read(tmp_path)
    except UsageError as error:
        assert "chaoskit.toml" in str(error)


def test_every_experiment_is_in_an_area():
    from chaoskit.cli import battery

    modules = {path.stem for path in selection.experiments(battery.directory()).values()}
    assert modules == {module for each in selection.AREAS.values() for module in each}
    assert set(selection.QUICK) <= selection.experiments(battery.directory()).keys()


def test_mounts_are_a_list_or_one_text(tmp_path, monkeypatch):
    found = read(tmp_path, own='env = "docker"\nimage = "ours:1"\nmount = [".:/work", "data:/data:ro"]\npull = true\n')
    assert found.value("mount") == [".:/work", "data:/data:ro"] and found.value("image") == "ours:1"
    assert read(tmp_path, own='mount = ".:/work"\n').value("mount") == [".:/work"]
    said = refused(tmp_path, monkeypatch, own='mount = ["data"]\n')
    assert "chaoskit.toml:1: mount: --mount 'data' is not SRC:DST" in said
    assert "mount must be a list of SRC:DST" in refused(tmp_path, monkeypatch, own="mount = 3\n")
    assert "did you mean 'mount'?" in refused(tmp_path, monkeypatch, own='mounts = ["a:/b"]\n')


def test_how_pods_reach_chaoskit(tmp_path):
    found = read(tmp_path, own="[kubernetes]\nchannel = 'volume'\n")
    place = options.cluster_of({"namespace": "n", "volume": "c:/v", "env": "kubernetes"}, found.pods)
    assert place.channel == "volume" and ClusterPlace.from_json(place.to_json()) == place
    for wrong in ("'relay'", "3", "true"):
        (tmp_path / "chaoskit.toml").write_text(f"[kubernetes]\nchannel = {wrong}\n")
        with pytest.raises(UsageError, match=r'chaoskit\.toml:2: .*channel must be "tcp", or "volume" if pods'):
            configuration.read(tmp_path)
    with pytest.raises(UsageError, match="ClusterPlace: channel must be"):
        replace(place, channel="relay")


@pytest.mark.parametrize("grace", ["0", "-5", "1.5", '"30"', "true"])
def test_a_grace_that_is_no_number_of_seconds(tmp_path, grace):
    (tmp_path / "chaoskit.toml").write_text(f"[kubernetes]\ngrace = {grace}\n")
    with pytest.raises(UsageError, match=r"chaoskit\.toml:2: .*grace must be a whole number of seconds from 1"):
        configuration.read(tmp_path)
