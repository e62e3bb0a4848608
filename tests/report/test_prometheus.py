"""The history as metrics: what they say of the last night, in a form that Prometheus reads."""

import os
import re
import shutil
import subprocess

import pytest

from chaoskit.errors import UsageError
from chaoskit.report.machine import prometheus
from chaoskit.studies.nights.findings import Findings
from chaoskit.studies.nights.suite_history import SuiteHistory
from tests.studies.nights.nights import JOB, night, result, timed, verdicts

LINE = re.compile(r'chaoskit_[a-z_]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})? -?[0-9.e+-]+')
HOSTILE = 'train "a\\b"\nnext {out}'


def findings(suites):
    return Findings.of(SuiteHistory.of(suites))


def metrics(suites, **options):
    return prometheus.text(findings(suites), **options).splitlines()


def of_experiment(name, **labels):
    named = {"training_job": JOB, "experiment": "test_kill", **labels}
    return f"chaoskit_{name}{{" + ",".join(f'{key}="{value}"' for key, value in named.items()) + "}"


def test_the_last_night_is_counted_by_verdict():
    suites = [night(0, result()), night(1, result("f"), result(name="test_nan"), result("s", name="test_cut"))]
    lines = metrics(suites, damaged=2)
    assert "chaoskit_nights 2" in lines and "chaoskit_damaged_suites 2" in lines
    assert 'chaoskit_last_night_experiments{verdict="fail"} 1' in lines
    assert 'chaoskit_last_night_experiments{verdict="pass"} 1' in lines
    assert 'chaoskit_last_night_experiments{verdict="skipped"} 1' in lines
    # 2 January 2026, 02:30 UTC
    assert "chaoskit_last_night_timestamp_seconds 1767321000" in lines


def test_an_experiment_that_became_red_is_marked():
    lines = metrics(verdicts("ppf"))
    assert of_experiment("experiment_verdict", verdict="fail") + " 1" in lines
    assert of_experiment("experiment_verdict", verdict="pass") + " 0" in lines
    assert of_experiment("experiment_turned", kind="red") + " 1" in lines
    assert not any("experiment_turned{" in line for line in metrics(verdicts("ppp")))


def test_an_experiment_that_was_not_run_on_the_last_night_keeps_its_verdict_and_is_not_counted():
    lines = metrics(verdicts("pf "))
    assert of_experiment("experiment_verdict", verdict="fail") + " 1" in lines
    assert 'chaoskit_last_night_experiments{verdict="fail"} 0' in lines


def test_times_have_a_last_and_a_usual_value():
    lines = metrics(
        [night(at, result(recovery_seconds=seconds)) for at, seconds in enumerate((1.0, 2.0, 3.0, 9.5))]
    )
    assert of_experiment("experiment_recovery_seconds", which="last") + " 9.5" in lines
    assert of_experiment("experiment_recovery_seconds", which="usual") + " 2" in lines
    assert of_experiment("experiment_lost_steps", which="last") + " 5" in lines
    assert not any("launch_seconds{" in line for line in lines)


def test_a_time_that_became_longer_is_a_ratio():
    shifts = [line for line in metrics(timed(30, experiments=6, step=(2.0, 20))) if "shift_ratio{" in line]
    assert shifts and all(float(line.rsplit(maxsplit=1)[1]) > 1 for line in shifts)


def test_a_suite_without_a_date_has_no_time():
    lines = metrics([night(0, result(), created="")])
    assert not any(line.startswith("chaoskit_last_night_timestamp_seconds ") for line in lines)


def test_every_line_is_of_the_format_whatever_a_command_contains():
    one = result("f", name='test "quoted\\"', job=HOSTILE, recovery_seconds=1e-7)
    lines = metrics([night(0, one), *timed(30, experiments=6, step=(2.0, 20))])
    assert r'training_job="train \"a\\b\"\nnext {out}"' in "\n".join(lines)
    for line in lines:
        assert line.startswith(("# HELP chaoskit_", "# TYPE chaoskit_")) or LINE.fullmatch(line), line
    values = [line for line in lines if not line.startswith("#")]
    assert len({line.rsplit(maxsplit=1)[0] for line in values}) == len(values)  # no series twice


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (prometheus)")
def test_the_tool_of_prometheus_finds_no_fault():
    text = prometheus.text(findings(timed(30, experiments=6, step=(2.0, 20))))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_is_replaced_as_a_whole(tmp_path):
    target = tmp_path / "chaoskit.prom"
    target.write_text("old")
    with target.open() as reader:
        prometheus.write(findings(verdicts("p")), str(target))
        assert reader.read() == "old"
    assert target.read_text().startswith("# HELP chaoskit_nights")
    assert os.listdir(tmp_path) == ["chaoskit.prom"] and target.stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=r"--metrics: cannot write .* name a writable file"):
        prometheus.write(findings(verdicts("p")), str(tmp_path / "missing" / "chaoskit.prom"))
