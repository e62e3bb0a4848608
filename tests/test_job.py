"""`Job`: what it refuses, and how it is kept; its log, and the options that tell of it."""

import argparse
import sys

import pytest

from chaoskit import Job
from chaoskit.cli import options
from chaoskit.errors import UsageError
from chaoskit.nodes import ClusterPlace

REGEX = r"step (?P<step>\d+) .*loss (?P<loss>\S+)"


def job(**given):
    return Job("train.py", ["--out", "{out}"], **given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"log_regex": r"step (?P<step>\d+"}, "not a regular expression"),
        ({"log_regex": r"step (\d+)"}, r"lacks the named group \(\?P<step>...\) and \(\?P<loss>...\)"),
        ({"log_regex": r"step (?P<step>\d+)"}, r"lacks the named group \(\?P<loss>...\)"),
        ({"stops_with": "zero"}, "stops_with must be 'nonzero' or an exit code from 0 to 255, not 'zero'"),
        ({"stops_with": 256}, "stops_with"),
        *(({"record_every": n}, "record_every must be a whole number from 1") for n in (0, -1, "x", 2.5, True)),
        ({"log_file": "train.log"}, "log_file needs log_regex"),
        *(
            ({"log_regex": REGEX, "log_file": path}, "log_file must be a path below {out}")
            for path in ("/var/train.log", "../train.log", "{out}/train.log", "")
        ),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(given, named):
    with pytest.raises(UsageError, match=named):
        job(**given)


def test_the_log_is_part_of_the_job():
    plain, printed, kept = job(), job(log_regex=REGEX), job(log_regex=REGEX, log_file="logs/train.log")
    assert len({one.digest() for one in (plain, printed, kept)}) == 3
    for one in (plain, printed, kept):
        assert Job.from_json(one.to_json()).to_json() == one.to_json()
    older = {key: value for key, value in plain.to_json().items() if not key.startswith("log_")}
    assert Job.from_json(older).digest() == plain.digest()


def test_a_relaunch_may_be_another_command():
    plain = Job.from_command(["python", "{out}"], resume_args=["--resume"])
    other = Job.from_command(
        ["python", "{out}"], resume_args=["--resume"], relaunch_command=["python3", "-u", "{out}"]
    )
    assert plain.words(out="o", relaunch=True) == ["python", "o", "--resume"]
    assert other.words(out="o") == ["python", "o"]
    assert other.words(out="o", relaunch=True) == ["python3", "-u", "o", "--resume"]
    assert Job.from_json(other.to_json()) == Job.from_json(Job.from_json(other.to_json()).to_json())
    assert Job.from_json(other.to_json()).relaunch_command == ("python3", "-u", "{out}")
    # An uninterrupted run is the same.
    assert other.digest() == plain.digest()
    older = {key: value for key, value in plain.to_json().items() if key != "relaunch_command"}
    assert Job.from_json(older).digest() == plain.digest()


def test_what_cannot_be_relaunched_is_refused_before_anything_runs():
    with pytest.raises(UsageError, match="relaunch_command must be a list of strings"):
        Job.from_command(["python", "{out}"], relaunch_command="python")
    with pytest.raises(UsageError, match="no program 'absent'"):
        Job.from_command([sys.executable, "{out}"], relaunch_command=["absent"]).validate()


def parse(*words):
    parser = argparse.ArgumentParser()
    options.add_to_parser(parser)
    return parser.parse_args(words)


def test_the_options_reach_pytest():
    told = options.forward(parse("--log-regex", REGEX, "--log-file", "train.log"))
    assert told == [f"--chaos-log-regex={REGEX}", "--chaos-log-file=train.log"]


def test_options_that_do_not_fit_are_refused(capsys):
    with pytest.raises(SystemExit):
        parse("--log-regex", "step")
    assert "argument --log-regex: log_regex 'step' lacks the named group" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--log-file needs --log-regex"):
        options.forward(parse("--log-file", "train.log"))


def test_secrets_are_not_stored_and_come_back_from_the_environment():
    secret = Job(
        "train.py", ["--out", "{out}", "--hf-token", "x1"], env={"A_PASSWORD": "x2", "B": "3"},
        resume_args=["--api-key=x4"],
    )  # fmt: skip
    told = secret.to_json()
    assert told["args"][-1] == "{secret:HF_TOKEN}" and told["resume_args"] == ["--api-key={secret:API_KEY}"]
    assert told["env"] == {"A_PASSWORD": "{secret:A_PASSWORD}", "B": "3"}
    assert secret.text.endswith("--hf-token '{secret:HF_TOKEN}'")
    again = Job.from_json(told).with_secrets({"HF_TOKEN": "x1", "A_PASSWORD": "x2", "API_KEY": "x4"})
    # The reference belongs to the words, not to what is stored of them.
    assert again.words() == secret.words() and again.env == secret.env
    assert again.digest() == secret.digest() != Job.from_json(told).digest()
    with pytest.raises(UsageError, match=r"\{secret:A_PASSWORD\}.*environment variables HF_TOKEN, A_PASSWORD$"):
        Job.from_json(told).with_secrets({"API_KEY": "x4"})


def test_a_job_template_is_kept_without_secrets():
    template = {"spec": {"env": [{"name": "HF_TOKEN", "value": "x1"}], "command": ["t", "--password", "x2"]}}
    place = ClusterPlace(namespace="ns", claim="claim", path="/c", job_template=template)
    told = Job("train.py", ["{out}"], cluster=place).to_json()
    kept = told["cluster"]["job_template"]["spec"]
    assert kept["env"][0]["value"] == "{secret:HF_TOKEN}" and kept["command"][-1] == "{secret:PASSWORD}"
    again = Job.from_json(told)
    assert again.cluster != place and again.with_secrets({"HF_TOKEN": "x1", "PASSWORD": "x2"}).cluster == place
