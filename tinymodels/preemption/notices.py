"""Notices of preemption (`--notice`): somebody says beforehand that this node will be taken away.

Each cloud says it at an address of the node, which a thread asks for; a scheduler sends SIGUSR1; a person makes a file.
While a notice stands, the ranks save after every step and train on: if the node is taken away, one step is lost at
most, and if it is not, nothing is. (SIGTERM is another matter: it asks to leave. See signals.py.)
"""

import json
import math
import os
import signal
import threading
import time
from calendar import timegm
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from tinymodels.config import Config

ADDRESS = "http://169.254.169.254"
ASK_EVERY = 0.5  # seconds
PATIENCE = 2.0  # seconds that an answer may take
SLACK = 5.0  # seconds after its time until a notice that nothing followed is over
LASTS = 120.0  # seconds that a signal stands: it names no time


class Source(Protocol):
    """Where notices come from."""

    def until(self) -> float | None:
        """Return when the node ends (time.time()), infinity if no time is named, None without a notice."""
        ...


class Aws:
    """Ask the instance metadata service of AWS, version 2: a token first, which runs out."""

    def __init__(self) -> None:
        self.base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", ADDRESS).rstrip("/") + "/latest"
        self.token = ""

    def until(self) -> float | None:
        try:
            return self.ask()
        except HTTPError as error:
            if error.code != 401:
                raise
        self.token = fetch(f"{self.base}/api/token", "PUT", {"X-aws-ec2-metadata-token-ttl-seconds": "21600"})
        return self.ask()

    def ask(self) -> float | None:
        action = fetch(f"{self.base}/meta-data/spot/instance-action", "GET", {"X-aws-ec2-metadata-token": self.token})
        return float(timegm(time.strptime(json.loads(action)["time"], "%Y-%m-%dT%H:%M:%SZ")))


class Gcp:
    """Ask the metadata server of Google, which names no time."""

    def __init__(self) -> None:
        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        self.url = f"http://{host}/computeMetadata/v1/instance/preempted"

    def until(self) -> float | None:
        return math.inf if fetch(self.url, "GET", {"Metadata-Flavor": "Google"}) == "TRUE" else None


class Azure:
    """Ask for the Scheduled Events of Azure. They are those of all machines of a set: only ours count."""

    def __init__(self) -> None:
        self.header = {"Metadata": "true"}
        self.name = ""

    def until(self) -> float | None:
        if not self.name:
            about = f"{ADDRESS}/metadata/instance/compute/name?api-version=2021-02-01&format=text"
            self.name = fetch(about, "GET", self.header)
        told = json.loads(fetch(f"{ADDRESS}/metadata/scheduledevents?api-version=2020-07-01", "GET", self.header))
        for event in told["Events"]:
            if event["EventType"] in ("Preempt", "Terminate") and self.name in event["Resources"]:
                return parsedate_to_datetime(event["NotBefore"]).timestamp() if event["NotBefore"] else math.inf
        return None


class File:
    """Look for a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def until(self) -> float | None:
        return math.inf if self.path.exists() else None


class Watch:
    """A context manager that knows whether a notice stands on this rank. One rank of each node asks."""

    def __init__(self, source: Source | None, by_signal: bool = False) -> None:
        self.source = source if os.environ.get("LOCAL_RANK", "0") == "0" else None
        self.by_signal = by_signal
        self.until: float | None = None
        self.over = threading.Event()
        self.before: Any = None

    def __enter__(self) -> "Watch":
        if self.by_signal:
            self.before = signal.signal(signal.SIGUSR1, self.signalled)
        if self.source is not None:
            threading.Thread(target=self.ask, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: Any, __: TracebackType | None) -> None:
        self.over.set()
        if self.by_signal:
            signal.signal(signal.SIGUSR1, self.before)

    def signalled(self, *_: Any) -> None:
        """Note the time, and nothing else. This is the signal handler."""
        self.until = time.time() + LASTS

    def ask(self) -> None:
        """Ask again and again. Where nobody answers, there is no notice."""
        assert self.source is not None
        while not self.over.wait(ASK_EVERY):
            try:
                self.until = self.source.until()
            except (URLError, OSError, ValueError, KeyError):
                self.until = None

    @property
    def stands(self) -> bool:
        """A notice was given, and its time is not over by much."""
        until = self.until
        return until is not None and time.time() < until + SLACK


def watch_for(config: Config) -> Watch:
    """Watch for the notices that `--notice` names."""
    if config.notice == "file":
        return Watch(File(config.out / "emergency_checkpoint"))
    if config.notice == "usr1":
        return Watch(None, by_signal=True)
    sources = {"aws": Aws, "gcp": Gcp, "azure": Azure}
    return Watch(sources[config.notice]() if config.notice in sources else None)


def fetch(url: str, method: str, headers: dict[str, str]) -> str:
    """Send a request to the metadata service, through no proxy."""
    request = Request(url, headers=headers, method=method)
    with build_opener(ProxyHandler({})).open(request, timeout=PATIENCE) as answer:
        return str(answer.read().decode())
