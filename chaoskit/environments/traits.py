"""`EnvironmentTraits`: what an environment is like, declared on its class and read without starting one.

What it can *do* to a job are its capabilities (`chaoskit.capabilities`), which its class fulfils or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a job's `{out}` may be. `watched`: a file system of ours with a journal, which can be made to fail; `recorded`:
#: the same, and the journal holds the bytes; "": a plain directory.
StorageKind = Literal["", "watched", "recorded"]


@dataclass(frozen=True, kw_only=True)
class EnvironmentTraits:
    """The traits of an environment. `name` is that of `--env NAME`, `summary` says where the ranks run, and `needs`
    what a machine must have for it.

    `nodes_least` and `nodes_most`: on how many nodes a job can run. `storage`: what the job's `{out}` can be.
    `storage_per_node`: storage faults can be limited to some of the nodes. `plain_fails`: a plain `{out}` can be made
    to fail, too, but only all requests of some kinds, until that is mended. `launches_warm`: it can fork ranks from a
    process that has imported torch. `shares_files`: the harness and all ranks see the run's directory at the same path,
    so that one rank can read a file that another one wrote there. `shares_ports`: two runs cannot listen at the same
    port. `one_clock`: all records have times of one clock; if not, each rank measures the offset of its machine's
    clock. `files_here`: the programs and files that the job's command names are those of this machine. `options` are
    those of the command line that not every environment uses, and this one does, without their dashes.
    """

    name: str
    summary: str
    needs: str = ""
    nodes_least: int = 1
    nodes_most: int = 1
    storage: tuple[StorageKind, ...] = ("",)
    storage_per_node: bool = False
    plain_fails: bool = False
    launches_warm: bool = False
    shares_files: bool = False
    shares_ports: bool = False
    one_clock: bool = True
    files_here: bool = True
    options: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        """Whether everything of a run is on this machine: its programs, its files and its clock."""
        return self.one_clock and self.files_here and self.shares_files
