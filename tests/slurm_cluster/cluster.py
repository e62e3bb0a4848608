"""`SlurmCluster`: slurmctld, munged and several slurmd of Debian's slurm-wlm, all in one directory.

Each slurmd runs in namespaces of its own for processes, mounts and the host name. So a node sees only its own
processes, has its own name, and knows those of the others, as a machine of a cluster does; all of them share the
network of this machine, each with a loopback address. That needs root; slurmd needs it to start jobs of other users.
Nothing is read from /etc/slurm, and no Slurm of this machine is touched: every command gets the `slurm.conf` of the
cluster in SLURM_CONF.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from chaoskit.environments.machine import processes

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel", "unshare")
#: Seconds for the cluster to be up, on a busy machine, and for a process to end after SIGTERM.
_UP_LIMIT, _END_LIMIT = 60.0, 10.0
#: The preemptible partition, which is the default one, the one whose jobs preempt, and one that is not up.
PARTITION, URGENT, CLOSED = "chaos", "urgent", "closed"
#: Seconds between the SIGTERM of a preemption and the requeue.
GRACE = 5

# The controller makes a requeued job wait until no old credential is valid: 120 s by default.
_CONF = """\
ClusterName=chaoskit-tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge.socket,cred_expire=5
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool-%n
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={place}/jobcomp.txt
PreemptMode=REQUEUE
{accounting}
{nodes}
PartitionName={partition} Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace} MaxTime=60 State=UP
PartitionName={urgent} Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=60 State=UP
PartitionName={closed} Nodes=ALL PriorityTier=1 State=DOWN
"""


def why_not() -> str | None:
    """None if this machine can run such a cluster, else the reason and the remedy."""
    if (without := missing(_PROGRAMS)) is not None:
        return f"there is no {without}: apt-get install slurm-wlm munge"
    if os.geteuid() != 0:
        return "the nodes of a Slurm cluster on one machine need namespaces of their own: run the tests as root"
    return None


def missing(programs: Sequence[str]) -> str | None:
    """The first of these programs that this machine does not have."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    return next((name for name in programs if shutil.which(name, path=path) is None), None)


class SlurmCluster:
    """A cluster with the nodes cn0, cn1, … below `place`; a context manager. `conf` is for SLURM_CONF."""

    #: Lines of the `slurm.conf`: who keeps accounts, and whose jobs preempt those of others.
    accounting = "AccountingStorageType=accounting_storage/none\nPreemptType=preempt/partition_prio"

    def __init__(self, place: Path, *, nodes: int = 4) -> None:
        self.place = place
        self.conf = place / "slurm.conf"
        self.nodes = [f"cn{number}" for number in range(nodes)]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._undo = ExitStack()

    def __enter__(self) -> SlurmCluster:
        self.place.mkdir(parents=True)
        with ExitStack() as undo:
            undo.callback(self._end_all)
            self._write_files()
            key, place = self.place / "munge.key", self.place
            key.touch(mode=0o600)
            key.write_bytes(secrets.token_bytes(128))
            self._start(
                "munged", "munged", "--foreground", "--force", f"--key-file={key}", f"--socket={place}/munge.socket",
                f"--pid-file={place}/munge.pid", f"--log-file={place}/munged.log", f"--seed-file={place}/munge.seed",
            )  # fmt: skip
            self._wait(lambda: (place / "munge.socket").exists(), "munged")
            self._start_accounting()
            self._start("slurmctld", "slurmctld", "-D", "-f", str(self.conf))
            for node in self.nodes:
                self.start_node(node)
            self._wait(lambda: self.command("sinfo", "-h", "-N", "-t", "idle", "-p", PARTITION, "-o", "%N").split()
                       == self.nodes, "its nodes")  # fmt: skip
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    @property
    def variables(self) -> dict[str, str]:
        """Those of this process, without what another Slurm has set, and with SLURM_CONF."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "SRUN"))
        }
        return {**kept, "SLURM_CONF": str(self.conf), "PATH": f"{kept.get('PATH', os.defpath)}:/usr/sbin:/sbin"}

    def command(self, *words: str, check: bool = False) -> str:
        """What a command of Slurm writes."""
        done = subprocess.run(words, env=self.variables, capture_output=True, text=True, timeout=60, check=check)
        return done.stdout

    def queued(self) -> list[str]:
        """The numbers of the jobs that have not ended."""
        return self.command("squeue", "-h", "-o", "%i").split()

    def start_node(self, node: str) -> None:
        """Start the slurmd of a node."""
        script = 'mount --bind "$1" /etc/hosts && hostname "$2" && exec slurmd -D -f "$3" -N "$2"'
        own = ("unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--mount-proc")
        self._start(node, *own, "sh", "-c", script, "sh", str(self.place / "hosts"), node, str(self.conf))

    def kill_node(self, node: str) -> None:
        """End a node with everything on it, as a machine that loses its power."""
        daemon = self._daemons.pop(node)
        daemon.kill()  # unshare takes the first process of the namespace with it, and that one all others
        daemon.wait()

    def _start_accounting(self) -> None:
        """Nobody keeps accounts."""

    def _write_files(self) -> None:
        (self.place / "state").mkdir()
        hosts = Path("/etc/hosts").read_text()
        lines = []
        for number, node in enumerate(self.nodes):
            (self.place / f"spool-{node}").mkdir()
            hosts += f"127.0.0.{10 + number} {node}\n"
            lines.append(
                f"NodeName={node} NodeHostname={node} NodeAddr=127.0.0.{10 + number} Port={free_port()} CPUs=4 "
                "State=UNKNOWN"
            )
        (self.place / "hosts").write_text(hosts)
        (self.place / "cgroup.conf").touch()
        self.conf.write_text(
            _CONF.format(
                host=socket.gethostname(), port=free_port(), place=self.place, nodes="\n".join(lines), grace=GRACE,
                partition=PARTITION, urgent=URGENT, closed=CLOSED, accounting=self.accounting,
            )
        )  # fmt: skip

    def _start(self, name: str, *words: str) -> None:
        with (self.place / f"{name}.out").open("wb") as said:
            self._daemons[name] = subprocess.Popen(
                words,
                env=self.variables,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _wait(self, holds: object, what: str) -> None:
        assert callable(holds)
        deadline = time.monotonic() + _UP_LIMIT
        while not holds():
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = "".join((self.place / f"{name}.out").read_text() for name in ended or self._daemons)
                raise AssertionError(f"the Slurm cluster has no {what}; {ended} ended: {said[-2000:]}")
            time.sleep(0.1)

    def _end_all(self) -> None:
        """The nodes first, with all that runs there; then whoever they report to."""
        for node in [node for node in self.nodes if node in self._daemons]:
            self.kill_node(node)
        for daemon in reversed(self._daemons.values()):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(_END_LIMIT)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()


def processes_of(cluster: SlurmCluster) -> list[int]:
    """The pids of all processes that have the `slurm.conf` of the cluster in their variables, this one excepted."""
    found = []
    mark = f"SLURM_CONF={cluster.conf}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        pid = int(entry.parent.name)
        try:
            if (
                pid != os.getpid()
                and mark in entry.read_bytes().split(b"\0")
                and processes.identify(pid) is not None
            ):
                found.append(pid)
        except OSError:
            continue
    return sorted(found)


def free_port() -> int:
    """A port of TCP that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
