"""`AccountedCluster`: a Slurm with accounting, by a slurmdbd and a MariaDB of its own. Jobs of one QOS preempt others.

The database listens on a socket below the cluster's own directory, and on no port.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.slurm_cluster import cluster
from tests.slurm_cluster.cluster import GRACE, SlurmCluster, free_port, missing

_PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "my_print_defaults", "sacctmgr")
#: The QOS that jobs have who do not ask for one, and the one whose jobs preempt these.
NORMAL, HIGH = "normal", "high"

_CONF = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile={place}/slurmdbd.pid
LogFile={place}/slurmdbd.log
"""


def why_not() -> str | None:
    """None if this machine can run such a cluster, else the reason and the remedy."""
    if (without := missing(_PROGRAMS)) is not None:
        return f"there is no {without}: apt-get install slurmdbd mariadb-server-core mariadb-client-core"
    return cluster.why_not()


class AccountedCluster(SlurmCluster):
    """See `SlurmCluster`. No job preempts by its partition."""

    def __init__(self, place: Path, *, nodes: int = 4) -> None:
        super().__init__(place, nodes=nodes)
        self._port = free_port()
        self.accounting = (
            f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={self._port}\nAccountingStoragePass={place}/munge.socket\nAccountingStorageEnforce=associations,qos\nPreemptType=preempt/qos"
        )

    @property
    def variables(self) -> dict[str, str]:
        """See `SlurmCluster`; slurmdbd finds the database by one of them."""
        return {**super().variables, "MYSQL_UNIX_PORT": str(self.place / "mariadb.socket")}

    def _start_accounting(self) -> None:
        place, data = self.place, self.place / "mariadb"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            env=self.variables, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        self._start(
            "mariadbd", "mariadbd", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-networking",
            f"--socket={place}/mariadb.socket", f"--pid-file={place}/mariadbd.pid",
        )  # fmt: skip
        self._wait(lambda: (place / "mariadb.socket").exists(), "database")
        conf = place / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(_CONF.format(port=self._port, place=place))
        self._start("slurmdbd", "slurmdbd", "-D")
        known = ("sacctmgr", "-nP", "show", "qos", "format=name")
        self._wait(lambda: self.command(*known).split() == [NORMAL], "slurmdbd")
        for words in (
            ("add", "cluster", "chaoskit-tests"),
            ("modify", "qos", NORMAL, "set", "PreemptMode=requeue", f"GraceTime={GRACE}"),
            ("add", "qos", HIGH, f"Preempt={NORMAL}"),
            ("modify", "user", "root", "set", f"qos={NORMAL},{HIGH}", f"defaultqos={NORMAL}"),
        ):
            self.command("sacctmgr", "-iQ", *words, check=True)
