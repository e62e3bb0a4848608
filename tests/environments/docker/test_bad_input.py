"""What the daemon, the image or the mounts cannot do is said in one sentence, with what to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from chaoskit import Job
from chaoskit.cli.main import main
from chaoskit.environments.agents.file_owners import FileOwners
from chaoskit.environments.docker import daemon
from chaoskit.environments.docker.daemon import Daemon, DaemonError, shared_daemon
from chaoskit.environments.docker.environment import DockerEnvironment
from chaoskit.environments.docker.image import examine
from chaoskit.environments.environment import Ended
from chaoskit.errors import ExitCode, UsageError
from tests.docker_images import images


def look(name, program="python3", **options):
    return examine(shared_daemon(), name, **{"pull": False, "program": program, "run_id": "test-look", **options})


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no-python", r"has no Python that starts \(… \w.*no such file.*\): the ranks need CPython 3.11"),
        ("old-python", "has no Python that starts"),
        ("no-torch", "has no torch for /.*python.*: install torch there"),
        ("other-architecture", "is made for linux/arm64, and this machine is linux/.*: build it with --platform"),
    ],
)
def test_an_image_in_which_no_job_can_run(image, kind, said):
    with pytest.raises(UsageError, match=said):
        look(images.image(kind))


def test_an_image_that_is_not_there(image):
    with pytest.raises(UsageError, match="there is no image 'chaoskit-tests:absent' on this machine: build it"):
        look("chaoskit-tests:absent")
    with pytest.raises(UsageError, match=r"needs the image of the job: add --image"):
        look("")
    with pytest.raises(UsageError, match=r"cannot fetch the image '127.0.0.1:1/absent:1'.*is its name right"):
        look("127.0.0.1:1/absent:1", pull=True)


@pytest.mark.launches
@pytest.mark.parametrize("kind", ["swallows-command", "ends-at-once"])
def test_an_entrypoint_of_the_image_does_not_swallow_the_command(place, image, kind):
    with DockerEnvironment(replace(place, image=images.image(kind))) as env:
        env.launch(0, ["python3", "-c", "print('begun')"])
        while not any(isinstance(event, Ended) for event in env.wait(10)):
            pass
    assert (place.run_dir / "logs" / "launch-0.log").read_text() == "begun\n"


@pytest.mark.launches
def test_a_user_of_the_image_who_may_write_and_one_who_may_not(place, image, monkeypatch):
    place = replace(place, image=images.image("ordinary-user"))
    with DockerEnvironment(place) as env:
        env.launch(0, ["python3", "-c", f"import os; open('{place.out}/made', 'w').write(str(os.getuid()))"])
        while not any(isinstance(event, Ended) for event in env.wait(10)):
            pass
        assert (place.out / "made").read_text() == "1234"
        # What a fault puts there in place of it, the job may write to all the same.
        (place.out / "made").unlink()
        (place.out / "made").write_text("damaged")
        env.launch(1, ["python3", "-c", f"open('{place.out}/made', 'w').write('again')"])
        while not any(isinstance(event, Ended) for event in env.wait(10)):
            pass
        assert (place.out / "made").read_text() == "again"
    for part in ("out", "events", "logs"):
        (place.run_dir / part).chmod(0o755)
    monkeypatch.setattr(FileOwners, "open", lambda owners, **to: None)
    with pytest.raises(
        UsageError, match=r"\(uid 1234\) cannot write to .*/run/\w+: build the image with a user of uid"
    ):
        DockerEnvironment(place).__enter__()


def test_no_daemon(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    assert "no Docker daemon answers at unix://" in (daemon.why_not() or "")
    monkeypatch.setenv("DOCKER_HOST", "tcp://far.example:2375")
    assert "must be one of this machine" in (daemon.why_not() or "")
    denied = ConnectionError("Error while fetching server API version")
    denied.__cause__ = PermissionError(13, "Permission denied")
    assert "sudo usermod -aG docker" in daemon._why_unreachable(denied)


def test_the_sdk_is_imported_when_it_is_needed(monkeypatch):
    code = "import sys; from chaoskit.environments import environment as e; e('docker'); print('docker' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
    monkeypatch.setitem(sys.modules, "docker", None)
    assert "pip install 'chaoskit[docker]'" in (daemon.why_not() or "")


def test_a_daemon_that_goes_away_or_whose_disk_is_full(image):
    from docker.errors import APIError
    from requests.exceptions import ConnectionError as Lost

    connection = Daemon()
    with (
        pytest.raises(
            DaemonError, match=r"cannot start a job: the Docker daemon has gone.*chaoskit clean"
        ) as gone,
        connection.doing("start a job"),
    ):
        raise Lost("connection aborted")
    assert gone.value.exit_code == ExitCode.INTERNAL
    full = pytest.raises(DaemonError, match="the disk of the Docker daemon is full: docker system prune")
    with full, connection.doing("make a container"):
        raise APIError("500", explanation="write /var/lib/docker/x: no space left on device")
    connection.close()


def test_mounts_and_options_that_cannot_be(tmp_path):
    words = ["torchrun", "train.py", "{out}"]
    with pytest.raises(UsageError, match="'data' is not SRC:DST"):
        Job.from_command(words, mounts=["data"])
    with pytest.raises(UsageError, match=f"there is no {tmp_path}/absent on this machine"):
        Job.from_command(words, mounts=["absent:/data"], cwd=str(tmp_path)).validate(files_here=False)
    for options in ({"image": "ours"}, {"mounts": [f"{tmp_path}:/data"]}):
        with pytest.raises(UsageError, match="is for nodes that are containers: add --env docker"):
            Job.from_command([sys.executable, "{out}"], **options).validate()


def test_the_command_line_says_it_and_ends_with_2(image, tmp_path):
    run = [sys.executable, "-m", "chaoskit", "run", "--quick", "--dir", str(tmp_path / "store")]
    job = ["--", "torchrun", "train.py", "--out", "{out}"]
    for options, said in (
        (["--env", "docker"], "needs the image of the job: add --image IMAGE"),
        (["--env", "docker", "--image", "chaoskit-tests:absent"], "there is no image 'chaoskit-tests:absent'"),
        (["--image", image], "choose --env docker or"),
        (
            ["--env", "docker", "--image", image, "--mount", "absent:/data"],
            "absent on this machine: check the path",
        ),
        (["--env", "docker", "--image", image, "--mount", "absent"], "'absent' is not SRC:DST"),
    ):
        done = subprocess.run([*run, *options, *job], capture_output=True, text=True, env=dict(os.environ))
        assert done.returncode == ExitCode.USAGE, done.stderr
        assert said in done.stderr and "Traceback" not in done.stderr
        assert (
            len([line for line in done.stderr.splitlines() if line.strip() and not line.startswith("usage")]) == 1
        )


@pytest.mark.parametrize("study", ["crash-states", "sdc-map"])
def test_a_study_needs_the_image_too(image, tmp_path, study, capsys):
    words = [study, "--env", "docker", "--dir", str(tmp_path)]
    for options, said in (
        ([], "needs the image of the job: add --image IMAGE"),
        (["--image", image, "--mount", "absent:/data"], "absent on this machine: check the path"),
    ):
        assert main([*words, *options, "--", "torchrun", "train.py", "--out", "{out}"]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert said in told and "Traceback" not in told
    assert main([study, "--image", image, "--", sys.executable, "--out", "{out}"]) == ExitCode.USAGE
    assert "--image is for --env docker or --env kubernetes, not for 'local'" in capsys.readouterr().err


def test_states_cannot_be_shown_by_an_ordinary_user(image, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        DockerEnvironment, "lacks", staticmethod(lambda capability, job: "only root: run chaoskit as root")
    )
    words = ["crash-states", "--env", "docker", "--image", image, "--dir", str(tmp_path)]
    assert main([*words, "--", "torchrun", "train.py", "--out", "{out}"]) == ExitCode.INCONCLUSIVE
    told = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert "a resume trial cannot be used here: only root: run chaoskit as root" in told[-1]


def test_a_helper_image_that_is_not_there_is_found_before_anything_runs(image):
    job = Job.from_command(["torchrun", "t.py", "{out}"], image=image, helper_image="absent:1")
    with pytest.raises(UsageError, match="there is no image 'absent:1' on this machine"):
        DockerEnvironment.rests_on(job)


def test_without_a_daemon_the_storage_says_so(monkeypatch):
    monkeypatch.setattr("chaoskit.environments.docker.daemon.why_not", lambda: "no daemon answers: start it")
    assert DockerEnvironment.storage_available() == "no daemon answers: start it"
