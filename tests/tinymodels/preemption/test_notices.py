"""Told that the node will be taken away, the ranks save after every step, and train on."""

import json
import math
import multiprocessing
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tinymodels.preemption import notices
from tinymodels.preemption.notices import Aws, Azure, File, Gcp, Watch
from tinymodels.train import Trainer

SMALL = ("--samples", 150, "--epochs", 2, "--save-every", 5)  # 20 steps, alone


class ToldAtStep7(Trainer):
    def log(self, epoch, loss, rate):
        super().log(epoch, loss, rate)
        if self.state.progress.step == 7:
            self.tell()

    def tell(self):
        os.kill(os.getpid(), signal.SIGUSR1)


class ToldByFile(ToldAtStep7):
    def tell(self):
        (self.config.out / "emergency_checkpoint").touch()
        deadline = time.monotonic() + 20
        while not self.preemption.watch.stands and time.monotonic() < deadline:
            time.sleep(0.01)


def saved(out):
    return sorted(int(path.name[-8:]) for path in (out / "checkpoints").iterdir())


@pytest.mark.parametrize(("notice", "trainer"), [("usr1", ToldAtStep7), ("file", ToldByFile)])
def test_saves_after_every_step_and_trains_on(train, tmp_path, assert_same_end, notice, trainer):
    train(tmp_path / "whole", *SMALL, "--keep", 50)
    assert saved(tmp_path / "whole") == [5, 10, 15, 20]
    assert train(tmp_path / "told", *SMALL, "--keep", 50, "--notice", notice, trainer=trainer) == 0
    assert saved(tmp_path / "told") == [5, *range(7, 21)]
    assert_same_end(tmp_path / "whole", tmp_path / "told")


def test_a_save_is_on_the_disk_before_the_next_step(train, tmp_path):
    flags = (*SMALL, "--save-async", "--write-delay", 0.1, "--keep", 50, "--stop-after", 9, "--notice", "usr1")
    assert train(tmp_path, *flags, trainer=ToldAtStep7) == 0
    assert saved(tmp_path) == [5, 7, 8, 9]


def test_without_the_option_nobody_listens(train, tmp_path, monkeypatch):
    monkeypatch.setattr(notices, "watch_for", lambda config: pytest.fail("somebody listens"))
    before = signal.getsignal(signal.SIGUSR1)
    assert train(tmp_path, *SMALL, "--stop-after", 1) == 0
    assert signal.getsignal(signal.SIGUSR1) is before


def test_the_handler_is_put_back(train, tmp_path):
    before = signal.getsignal(signal.SIGUSR1)
    train(tmp_path, *SMALL, "--stop-after", 1, "--notice", "usr1")
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_notice_is_over_some_time_after_its_time():
    watch = Watch(None)
    assert not watch.stands
    for until, stands in ((math.inf, True), (time.time() - 1, True), (time.time() - 10, False)):
        watch.until = until
        assert watch.stands is stands


def test_one_rank_of_a_node_asks(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert Watch(File("x")).source is None
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert Watch(File("x")).source is not None


@pytest.fixture
def service(monkeypatch):
    """Answers by method and path; what it was asked. `gone` has it answer no more."""
    answers, asked = {}, []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
            status, text = answers.get((self.command, self.path), (404, ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{where}")
        monkeypatch.setenv("GCE_METADATA_HOST", where)
        monkeypatch.setattr(notices, "ADDRESS", f"http://{where}")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody goes through it
        yield answers, asked
        server.shutdown()


def test_aws_is_asked_with_a_token_and_for_a_new_one_when_it_has_run_out(service):
    answers, asked = service
    action = ("GET", "/latest/meta-data/spot/instance-action")
    answers[action] = (401, "")
    answers["PUT", "/latest/api/token"] = (200, "a token")
    aws = Aws()
    with pytest.raises(OSError):
        aws.until()
    assert [each[:2] for each in asked] == [action, ("PUT", "/latest/api/token"), action]
    assert asked[-1][2]["x-aws-ec2-metadata-token"] == "a token"
    answers[action] = (200, json.dumps({"action": "terminate", "time": "2030-01-02T03:04:05Z"}))
    assert aws.until() == 1893553445.0
    assert len(asked) == 4, "the token is still good"


def test_google(service):
    answers, asked = service
    path = ("GET", "/computeMetadata/v1/instance/preempted")
    for said, until in (("FALSE", None), ("TRUE", math.inf)):
        answers[path] = (200, said)
        assert Gcp().until() == until
    assert asked[0][2]["metadata-flavor"] == "Google"


def test_azure_tells_of_all_machines_of_a_set(service):
    answers, asked = service
    answers["GET", "/metadata/instance/compute/name?api-version=2021-02-01&format=text"] = (200, "ours")
    events = ("GET", "/metadata/scheduledevents?api-version=2020-07-01")
    event = {"EventType": "Preempt", "Resources": ["theirs"], "NotBefore": "Wed, 02 Jan 2030 03:04:05 GMT"}
    azure = Azure()
    for change, until in (
        ({}, None),
        ({"Resources": ["ours"]}, 1893553445.0),
        ({"Resources": ["ours"], "EventType": "Freeze"}, None),
        ({"Resources": ["ours"], "NotBefore": ""}, math.inf),
    ):
        answers[events] = (200, json.dumps({"DocumentIncarnation": 1, "Events": [{**event, **change}]}))
        assert azure.until() == until
    assert asked[0][2]["metadata"] == "true"


def test_where_nobody_answers_there_is_no_notice(monkeypatch):
    monkeypatch.setattr(notices, "ASK_EVERY", 0.01)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    asked = threading.Event()

    class Counted(Aws):
        def until(self):
            asked.set()
            return super().until()

    with Watch(Counted()) as watch:
        watch.until = math.inf
        assert asked.wait(10)
        deadline = time.monotonic() + 10
        while watch.stands and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not watch.stands


@pytest.mark.slow
def test_one_rank_of_two_is_told_and_both_save(launch, tmp_path, assert_same_end):
    def tell(line, ranks):
        if line.startswith("step 13 "):
            ranks[1].send_signal(signal.SIGUSR1)

    launch(tmp_path / "whole", "--epochs", 1)
    flags = ("--epochs", 1, "--notice", "usr1", "--keep", 50, "--step-delay", 0.05)
    codes, _ = launch(tmp_path / "told", *flags, seen=tell)
    assert codes == [0, 0]
    assert {*range(15, 20)} < {*saved(tmp_path / "told")}
    assert_same_end(tmp_path / "whole", tmp_path / "told")


def test_workers_of_the_loader_do_not_die_of_a_signal_to_all(train, tmp_path):
    class ToldToAll(ToldAtStep7):
        def tell(self):
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGUSR1)
            super().tell()

    assert train(tmp_path, *SMALL, "--keep", 50, "--notice", "usr1", "--workers", 1, trainer=ToldToAll) == 0
    assert saved(tmp_path) == [5, *range(7, 21)]
