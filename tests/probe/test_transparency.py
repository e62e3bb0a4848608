"""A program under the probe does what it does without: arguments, errors, identities, signal handlers, threads."""

import json
import os
import signal
import socket
import threading
import time

from chaoskit.probe.gate import GateClient
from chaoskit.probe.observer import Observer
from chaoskit.probe.session import ProbeSession
from chaoskit.protocol.events import EventWriter, RecordGap, read_events


def test_arguments_by_name_are_taken_by_whatever_name_torch_gives_them(probed):
    run = probed("""
        import os, torch
        file = os.path.join(os.environ["CHAOSKIT_OUT"], "a.pt")
        p = torch.ones(2, requires_grad=True)
        torch.autograd.grad(outputs=(2 * p).sum(), inputs=p)
        torch.autograd.backward(tensors=(3 * p).sum())
        torch.autograd.backward(tensors=[p.sum()], grad_tensors=[None])
        p.sum().backward(gradient=torch.tensor(1.0))
        torch.autograd.backward(torch.autograd.graph.get_gradient_edge(p.sum()))
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(outputs=[p.sum(), p.sum()])
        optimizer = torch.optim.SGD([p], lr=0.1)
        scaler.step(optimizer=optimizer)
        torch.save(obj={"optimizer": optimizer.state_dict()}, f=file)
        torch.load(f=file)
    """)
    assert run.code == 0, run.output
    assert run.events("probe.error") == []
    assert run.events("step")[0]["losses"] == [float(loss).hex() for loss in (6, 2, 2)]
    assert [e["path"] for e in run.events("save.begin") + run.events("load.begin")] == [
        str(run.run_dir / "out" / "a.pt")
    ] * 2


def test_what_is_wrapped_can_be_pickled_and_scripted(probed):
    run = probed("""
        import pickle, torch
        for function in (torch.save, torch.load, torch.autograd.backward, torch.autograd.grad):
            assert pickle.loads(pickle.dumps(function)) is function

        @torch.jit.script
        def slope(x: torch.Tensor):
            return torch.autograd.grad([(2 * x).sum()], [x])

        print(slope(torch.ones(2, requires_grad=True)))
    """)
    assert run.code == 0, run.output


def test_a_step_that_runs_its_closure_often_is_one_step_with_what_it_began_with(probed):
    run = probed("""
        import torch
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(4, 3)).sub(3).pow(2).sum()
            loss.backward()
            return loss
        print(*(optimizer.step(closure).item().hex() for _ in range(3)))
    """)
    assert run.code == 0, run.output
    assert [e["losses"] for e in run.events("step")] == [[loss] for loss in run.output.split()]


def test_micro_batches_before_the_closure_belong_to_its_step(probed):
    run = probed("""
        import torch
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def closure():
            loss = model(torch.ones(4, 3)).sum()
            loss.backward()
            return loss
        for _ in range(2):
            closure()
            optimizer.step(closure)
    """)
    assert [len(e["losses"]) for e in run.events("step")] == [2, 2]


def test_the_probe_is_not_compiled_with_the_step(probed):
    run = probed("""
        import torch
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = torch.compile(lambda: optimizer.step(), backend="eager")
        for _ in range(2):
            model(torch.ones(4, 3)).sum().backward()
            step()
    """)
    assert run.code == 0, run.output
    assert run.events("probe.error") == []
    assert [e["state"].get("model") is not None for e in run.events("step")] == [True, True]


def test_a_file_made_from_a_descriptor_is_seen_by_its_path(probed):
    run = probed("""
        import os, tempfile, torch
        fd, name = tempfile.mkstemp(dir=os.environ["CHAOSKIT_OUT"], prefix="draft")
        with os.fdopen(fd, "wb") as file:
            torch.save({"optimizer": 1}, file)
    """)
    assert run.code == 0, run.output
    assert ["/out/draft" in e["path"] for e in run.events("save.begin")] == [True]


def test_a_save_beside_an_asynchronous_one_is_seen(probed):
    run = probed("""
        import os, torch
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint import FileSystemWriter
        out = os.environ["CHAOSKIT_OUT"]

        class Slow(FileSystemWriter):
            def write_data(self, *args, **kwargs):
                import time
                time.sleep(1)
                return super().write_data(*args, **kwargs)

        future = dcp.async_save({"a": torch.ones(3)}, storage_writer=Slow(out + "/step"), no_dist=True)
        torch.save({"optimizer": 1}, out + "/extra.pt")
        assert not future.done()
        future.result()
    """)
    assert run.code == 0, run.output
    assert [(e["api"], e["path"].rpartition("/")[2]) for e in run.events("save.begin")] == [
        ("dcp.async_save", "step"),
        ("torch.save", "extra.pt"),
    ]


def test_a_record_that_cannot_be_opened_fails_no_save(probed):
    run = probed("""
        import os, shutil, torch
        shutil.rmtree(os.path.join(os.environ["CHAOSKIT_RUN"], "events"))
        torch.save({}, os.path.join(os.environ["CHAOSKIT_OUT"], "a.pt"))
        os.mkdir(os.path.join(os.environ["CHAOSKIT_RUN"], "events"))
    """)
    assert run.code == 0, run.output


def test_what_the_job_tells_and_cannot_be_read_does_not_fail_it(probed):
    run = probed("""
        import torch
        from chaoskit import probe
        probe.step(loss="a word")
    """)
    assert run.code == 0, run.output
    assert [e["where"] for e in run.events("probe.error")] == ["step"]


def test_a_file_read_before_the_directory_changes_is_a_source(probed):
    run = probed("""
        import os, torch
        open("settings.txt", "w").close()
        open("settings.txt").close()
        os.chdir("/")
        p = torch.ones(1, requires_grad=True)
        p.sum().backward()
        torch.optim.SGD([p]).step()
    """)
    assert run.code == 0, run.output
    assert any(f["path"].endswith("/settings.txt") for f in run.events("sources")[0]["files"])


def test_a_signal_handler_that_saves_does_not_wait_for_the_rank_that_it_interrupts(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "gate.sock"))
    listener.listen()
    gate = GateClient(f"unix:{tmp_path}/gate.sock", rank=0, launch=0, restart=0)
    harness = listener.accept()[0].makefile("rwb")
    handled = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(gate.arrive("save", 0)))

    def strike():
        harness.readline()
        harness.readline()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.2)
        harness.write(json.dumps({"do": "go", "gate": True}).encode() + b"\n")
        harness.flush()

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        assert gate.arrive("step", 0) is None
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
        listener.close()
    assert handled == [None]
    assert gate.open


def test_threads_that_write_at_once_leave_no_gap(tmp_path):
    session = ProbeSession(tmp_path, launch=0)
    session._writer = EventWriter(tmp_path / "rank.jsonl")
    threads = [threading.Thread(target=lambda: [session.write("x", n=n) for n in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(read_events(tmp_path / "rank.jsonl"))
    assert len(found) == 8000
    assert not any(isinstance(each, RecordGap) for each in found)


def test_modules_that_come_and_go_are_not_remembered(tmp_path):
    class Thing:
        pass

    observer = Observer(ProbeSession(tmp_path, launch=0))
    for _ in range(100):
        observer.training.add("root", Thing())
    assert len(observer.training._known["root"]) == 1
