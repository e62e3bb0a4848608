"""The checklist names experiments, checks, codes and measures that exist."""

import ast
import re

from chaoskit.checks.registry import CODES_OF
from chaoskit.cli import battery, selection
from chaoskit.errors import CODES
from chaoskit.faults.node.preempt import CLOUDS
from chaoskit.studies.certificate.absences import CONDITIONS, of_the_job
from chaoskit.studies.certificate.measures import MEASURES
from chaoskit.studies.certificate.rows import ALSO, ROWS
from tests.studies.certificate.by_hand import codes_of

NAMED = {name for row in ROWS for need in row.needs for name in need.experiments}


def test_each_row_has_its_own_id_and_says_what_it_claims_and_how_to_test_it():
    assert len({row.id for row in ROWS}) == len(ROWS) >= 30
    for row in ROWS:
        assert row.claim.endswith(".") and row.how and not row.how.endswith("."), row.id
        assert row.needs or row.measure in MEASURES or row.measure == "rest", row.id
        assert set(row.codes) <= set(CODES) and (not row.only_if or row.only_if in CONDITIONS)


def test_every_experiment_is_one_of_the_battery():
    """With its parameters: a renamed one would leave its row untested for ever."""
    known = set(battery.titles(battery.ALL, nodes="1:2", every="30m", notices=",".join(CLOUDS)))
    known |= set(battery.titles(battery.Selection(also=ALSO), nodes="1:2"))
    modules = {name: path.name for name, path in selection.experiments(battery.directory()).items()}
    for name in NAMED:
        module, _, experiment = name.partition("::")
        assert modules[experiment.partition("[")[0]] == module
        if experiment.endswith("[*]"):
            assert any(one.startswith(experiment.removesuffix("*]")) for one in known), name
        else:
            assert experiment in known, name


def test_what_runs_on_request_alone_is_what_rows_need_and_the_battery_leaves_out():
    usual = set(battery.titles(battery.ALL, nodes="1:2", every="30m", notices="aws"))
    needed = {name.partition("::")[2] for name in NAMED}
    assert {name for name in needed if name not in usual and not name.endswith("[*]")} == set(ALSO)


def test_every_check_exists_and_can_refute_its_row():
    for row in ROWS:
        for check in (check for need in row.needs for check in need.checks):
            assert check in CODES_OF
            assert not row.codes or set(row.codes) & set(codes_of(check)), f"{row.id}: {check}"


def test_every_experiment_applies_the_checks_that_rows_need_of_it():
    """As the module reads: the fixtures of a module, or the experiment itself, name the check."""
    home = battery.directory()
    shared = (home / "conftest.py").read_text()
    for row in ROWS:
        for need in row.needs:
            for name in need.experiments:
                text = (home / name.partition("::")[0]).read_text()
                named = set(re.findall(r"checks\.(\w+)\(", text + shared))
                assert set(need.checks) <= named, f"{name}: {set(need.checks) - named}"


def test_only_properties_of_the_job_make_a_row_not_apply():
    """Every sentence with which an experiment skips, by what it is: of the job, or of how and where it ran."""
    of_the_run = (
        "fewer than", "makes no save", "saves at its very end", "saves nothing", "saves no checkpoints", "never waited",
        "no rank asked", "only one rank", "ended before its limit", "SIGTERM asks", "cannot be withdrawn",
        "makes no process group", "time out after", "makes no {} of such numbers",
    )  # fmt: skip
    found = 0
    for path in sorted(battery.directory().glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.skip":
                for text in _texts(node.args[0]):
                    found += 1
                    mine = of_the_job(text, ranks=2)
                    assert mine != any(word in text for word in of_the_run), f"{path.name}: {text}"
    assert found > 15
    assert not of_the_job("one rank alone writes a checkpoint", ranks=1)
    assert not of_the_job("control groups cannot be made: run as root", ranks=2)


def _texts(node):
    """The texts that an argument may be, as far as the source has them."""
    match node:
        case ast.Constant():
            yield node.value
        case ast.JoinedStr():
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        case ast.IfExp():
            yield from (*_texts(node.body), *_texts(node.orelse))
        case ast.Name(id="NO_SAVES"):
            yield "the job saves no checkpoints"
