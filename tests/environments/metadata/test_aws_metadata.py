"""The metadata service of AWS: tokens, and the notices of a spot instance."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from chaoskit.environments.metadata.aws_metadata import AwsMetadata
from chaoskit.environments.metadata.notice_board import NoticeBoard
from tests.environments.metadata.asking import ask

ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
TOKEN = "/latest/api/token"


@pytest.fixture
def board():
    return NoticeBoard()


@pytest.fixture
def aws(board):
    return AwsMetadata(board, node="node1")


def token_of(service, seconds="60"):
    answer = ask(service, "PUT", TOKEN, X_aws_ec2_metadata_token_ttl_seconds=seconds)
    assert answer.status == 200
    return answer.text


def test_without_a_token_nothing_is_told(aws):
    assert ask(aws, "GET", ACTION).status == 401
    assert ask(aws, "GET", ACTION, X_aws_ec2_metadata_token="made up").status == 401
    assert ask(aws, "GET", ACTION, X_aws_ec2_metadata_token=token_of(aws)).status == 404


def test_version_1_needs_no_token_but_takes_no_wrong_one(board):
    both = AwsMetadata(board, node="node1", v1=True)
    assert ask(both, "GET", ACTION).status == 404
    assert ask(both, "GET", ACTION, X_aws_ec2_metadata_token="made up").status == 401
    assert ask(both, "GET", ACTION, X_aws_ec2_metadata_token=token_of(both)).status == 404


@pytest.mark.parametrize("seconds", [None, "", "0", "21601", "soon", "-1"])
def test_a_token_needs_its_seconds(aws, seconds):
    given = {} if seconds is None else {"X_aws_ec2_metadata_token_ttl_seconds": seconds}
    assert ask(aws, "PUT", TOKEN, **given).status == 400


def test_the_answer_with_a_token_goes_one_hop_and_names_its_seconds(aws):
    answer = ask(aws, "PUT", TOKEN, X_aws_ec2_metadata_token_ttl_seconds="21600")
    assert answer.hops == 1
    assert answer.headers == {"x-aws-ec2-metadata-token-ttl-seconds": "21600"}


def test_a_token_is_not_given_through_a_proxy(aws):
    answer = ask(aws, "PUT", TOKEN, X_aws_ec2_metadata_token_ttl_seconds="60", X_Forwarded_For="10.0.0.1")
    assert answer.status == 403


def test_a_token_runs_out(aws, monkeypatch):
    token = token_of(aws, "5")
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 6)
    assert ask(aws, "GET", ACTION, X_aws_ec2_metadata_token=token).status == 401


def test_the_notice_names_the_action_and_the_time(aws, board):
    token = token_of(aws)
    board.post(seconds=120)
    answer = ask(aws, "GET", ACTION, X_aws_ec2_metadata_token=token)
    told = json.loads(answer.text)
    assert (answer.status, told["action"], [*told]) == (200, "terminate", ["action", "time"])
    at = datetime.strptime(told["time"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    assert 117 < at - time.time() <= 120
    rebalance = json.loads(ask(aws, "GET", REBALANCE, X_aws_ec2_metadata_token=token).text)
    assert [*rebalance] == ["noticeTime"]
    assert answer.notice and not ask(aws, "GET", "/latest/meta-data/", X_aws_ec2_metadata_token=token).notice
    ends = "/latest/meta-data/spot/termination-time"
    assert ask(aws, "GET", ends, X_aws_ec2_metadata_token=token).text == told["time"]


def test_a_notice_that_is_withdrawn_is_gone(aws, board):
    token = token_of(aws)
    board.post(seconds=120)
    board.withdraw()
    for path in (ACTION, REBALANCE):
        assert ask(aws, "GET", path, X_aws_ec2_metadata_token=token).status == 404


def test_names_below_a_path(aws, board):
    token = token_of(aws)
    told = ask(aws, "GET", "/latest/meta-data/", X_aws_ec2_metadata_token=token).text
    assert told == "instance-id\ninstance-life-cycle\nlocal-hostname"
    board.post(seconds=120)
    assert "spot/" in ask(aws, "GET", "/2021-07-15/meta-data", X_aws_ec2_metadata_token=token).text.splitlines()
    told = ask(aws, "GET", "/latest/meta-data/spot/", X_aws_ec2_metadata_token=token).text
    assert told == "instance-action\ntermination-time"
    assert ask(aws, "GET", "/latest/meta-data/no-such-thing", X_aws_ec2_metadata_token=token).status == 404
    assert ask(aws, "GET", "/elsewhere", X_aws_ec2_metadata_token=token).status == 404
    assert ask(aws, "POST", ACTION, X_aws_ec2_metadata_token=token).status == 405
