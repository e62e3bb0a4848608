"""`DockerEnvironment`: each node of a job is a container of the job's own image, on a network of the run's own."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaoskit.capabilities import CanDegrade, CanLimitDisk, CanOwnAddress, CanPartition, CanShowDirectory
from chaoskit.environments.agents.agent_line import NAME, AgentDoor
from chaoskit.environments.agents.file_owners import FileOwners
from chaoskit.environments.agents.image_facts import ImageFacts
from chaoskit.environments.docker import daemon, objects, places
from chaoskit.environments.docker.about import maps_users
from chaoskit.environments.docker.container_disks import ContainerDisks, why_no_disk_limits
from chaoskit.environments.docker.container_metadata import ContainerMetadata
from chaoskit.environments.docker.container_nodes import ContainerNode, ContainerNodes
from chaoskit.environments.docker.container_preemptions import ContainerPreemptions
from chaoskit.environments.docker.daemon import Daemon, shared_daemon
from chaoskit.environments.docker.host_paths import host_paths
from chaoskit.environments.docker.image import examine, image_id
from chaoskit.environments.docker.network_faults import ContainerNetwork
from chaoskit.environments.docker.network_helpers import Helper, NodeHelpers, enter, join, why_not_here
from chaoskit.environments.docker.objects import Objects
from chaoskit.environments.docker.storage_mount import StorageMount
from chaoskit.environments.docker.storage_mount import why_not as why_no_storage
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.gate.doors import UnixDoor
from chaoskit.environments.machine import requirements
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.machine.preemptions import Preemptions
from chaoskit.environments.machine.run_files import RunStorage
from chaoskit.environments.metadata.run_metadata import known_names
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.errors import MissingCapability
from chaoskit.job import Job

#: Docker's own networks have room for many more; a machine has not.
MOST_NODES = 32


class DockerEnvironment(RunStorage, ContainerDisks, ContainerPreemptions):
    """Runs a job in containers; fulfils `Environment`, the capabilities of `RunStorage`, since the run's files are
    those of this machine, `CanShowDirectory`, and the capabilities of `ContainerFaults`, `ContainerDisks` and
    `ContainerPreemptions`."""

    traits = EnvironmentTraits(
        name="docker",
        summary="containers of the job's own image, each node one",
        needs="a Docker daemon on this machine, and the image",
        nodes_most=MOST_NODES,
        storage=("", "watched", "recorded"),
        storage_per_node=True,
        launches_warm=True,
        shares_files=True,
        files_here=False,
        options=("image", "mount", "pull", "helper-image"),
    )

    def __init__(self, spec: RunSpec) -> None:
        # The daemon gives each container a control group, so the run needs none of its own.
        RunStorage.__init__(self, MachineRun(replace(spec, limits=()), identify=self.identify, line_of=self.line_of))
        ContainerDisks.__init__(self)
        Preemptions.__init__(self)
        self.job = JobOnNodes(self.run, NodeRoster(MOST_NODES), self)
        self._lost = set()
        self._containers: ContainerNodes | None = None
        self._network: ContainerNetwork | None = None
        self._metadata: ContainerMetadata | None = None
        self._owners: FileOwners | None = None
        self._storage = StorageMount(self.run)
        #: The nodes whose container has begun while another directory was shown.
        self._began_with_it: set[str] = set()
        self._cwd = ""
        self._door: AgentDoor | None = None

    @staticmethod
    def available() -> str | None:
        """None if this machine can run it, else the reason and the remedy."""
        return requirements.why_not() or daemon.why_not()

    @staticmethod
    def storage_available() -> str | None:
        """None if `{out}` can be a storage of ours in containers, else the reason and the remedy."""
        return daemon.why_not() or why_no_storage()

    @staticmethod
    def lacks(capability: type, job: Job | None) -> str | None:
        """Who may not enter the network of a container, and has no image for a helper, cannot change it; only root
        limits the disk of a container; who cannot mount a storage for containers can show them nothing else."""
        if capability is CanLimitDisk:
            return why_no_disk_limits()
        if capability is CanShowDirectory:
            return why_no_storage()
        has_helper = job is not None and job.helper_image
        tool = "nft" if capability is CanPartition else "ip" if capability in (CanDegrade, CanOwnAddress) else ""
        return why_not_here(tool) if tool and not has_helper else None

    @staticmethod
    def rests_on(job: Job) -> Mapping[str, Any]:
        """The image, and where the command starts in it."""
        if job.helper_image:
            image_id(shared_daemon(), job.helper_image, pull=job.pull)
        run_id = f"look-{os.getpid()}"
        facts = examine(shared_daemon(), job.image, pull=job.pull, program=job.words()[0], run_id=run_id)
        return {"image": facts.id, "mounts": list(job.mounts)}

    @staticmethod
    def sweep(root: Path) -> tuple[str, ...]:
        """Containers and networks whose owner is dead. Raises ChaoskitError without a daemon."""
        return objects.sweep(shared_daemon())

    @staticmethod
    def path_here(job: Job, path: str) -> str | None:
        """Files of the image are there as long as its id is the same."""
        return places.here(job, path)

    @property
    def network(self) -> ContainerNetwork:
        """See `ContainerFaults`."""
        assert self._network is not None, "the environment has not been entered"
        return self._network

    def out(self) -> Path:
        """See `CanTouchFiles`."""
        found = RunStorage.out(self)
        self.owners.take()
        return found

    @property
    def containers(self) -> ContainerNodes:
        """See `ContainerFaults`."""
        assert self._containers is not None, "the environment has not been entered"
        return self._containers

    def __enter__(self) -> DockerEnvironment:
        run, spec = self.run, self.run.spec
        connection = shared_daemon()
        self._objects = Objects(connection, spec.run_id)
        objects.sweep(connection)
        facts = examine(connection, spec.image, pull=False, program=spec.program, run_id=spec.run_id)
        owners = self._owners = FileOwners(run, facts.uid, self.hand_over)
        others = self._other_users(owners, connection)
        run.begin(others=others)
        try:
            owners.open(to_helpers=bool(spec.helper_image))
            self._storage.mount()
            run.keep(self._objects.close)
            # A helper is root without the right to pass over the modes of files.
            admitted = {*others, 0} if others is not None and spec.helper_image else others
            door = self._door = AgentDoor(UnixDoor(run.run_dir, name=NAME, others=admitted))
            run.keep(door.close)
            self._cwd = self._directory(facts)
            host = host_paths()
            # What a container in a container has in /tmp, the daemon does not see.
            directory = run.run_dir / "containers" if host.container else run.tmp
            directory.mkdir(exist_ok=True)
            resolver = directory / "resolv.conf"
            places.write_resolver(resolver)
            self._containers = ContainerNodes(
                connection,
                self._objects,
                image=facts,
                cwd=self._cwd,
                door=door,
                host=host,
                directory=directory,
                roster=self.job.roster,
                place=lambda path: places.places(
                    spec, host=host, names=path, resolver=resolver, out=self._storage.place
                ),
                known=known_names(run.metadata),
            )
            run.keep(self._containers.close)
            helpers = NodeHelpers(self._containers, self._start_helper)
            self._network = ContainerNetwork(self._containers, helpers)
            run.keep(self._network.close)
            if run.metadata is not None:
                self._must_give_addresses()
                self._metadata = ContainerMetadata(run.metadata, helpers, door)
            for _ in range(spec.nodes.most):
                self.bring_up()
            remedy = f"build the image with a user of uid {os.geteuid()}, or store runs with --dir where it may write"
            self.check_first_node(facts, remedy=remedy)
            run.keep(owners.take)
            run.keep(run.close_launch)
        except BaseException:
            run.end()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.run.end()

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Environment`."""
        self.job.roster.away.clear()
        return RunStorage.stop(self)

    def show(self, directory: Path) -> None:
        """See `CanShowDirectory`."""
        self.hide()
        self.owners.give(directory)
        self._storage.show(directory)
        for node in self.job.roster.up:
            self._storage.introduce(self.containers.now[node])

    def hide(self) -> None:
        """See `CanShowDirectory`."""
        RunStorage.hide(self)
        # These have what was shown mounted at their {out}, and nothing else.
        began, self._began_with_it = self._began_with_it, set()
        for node in [node for node in self.job.roster.up if node in began]:
            self.job.roster.up.remove(node)
            self.bring_up(node)

    def bring_up(self, node: str | None = None) -> str:
        """See `NodeMaker`."""
        made = self.containers.make(node)
        self.network.came_up(made)
        if self._metadata is not None:
            self._metadata.serve(self.containers.now[made])
        if self.run.spec.shows and self.run.storage is not None:
            self._began_with_it.add(made)
        self._storage.introduce(self.containers.now[made])
        return made

    @staticmethod
    def _other_users(owners: FileOwners, connection: Daemon) -> Collection[int] | None:
        """Who beside our user comes to the gate: the user of the image; None where its uid here is not known."""
        if not owners.is_closed_to_job:
            return ()
        with connection.doing("ask the daemon about itself") as client:
            return None if maps_users(client.info()) else {owners.uid}

    def _must_give_addresses(self) -> None:
        """Raises MissingCapability where containers cannot have the address at which clouds have their services."""
        if not self.run.spec.helper_image and (why := why_not_here("ip")) is not None:
            message = f"a metadata service cannot be had in containers: {why}"
            raise MissingCapability(message, capability=CanOwnAddress.__name__, remedy=why)

    def _start_helper(self, node: ContainerNode) -> Helper:
        """See `NodeHelpers`."""
        spec = self.run.spec
        if not spec.helper_image:
            return enter(spec.run_id, node)
        assert self._door is not None
        return join(
            shared_daemon(),
            self._objects,
            self._door,
            spec.helper_image,
            node,
            host=host_paths(),
            store=spec.store,
        )

    def _directory(self, facts: ImageFacts) -> str:
        """Where the command starts: in the image's own directory, unless the job's is mounted."""
        spec = self.run.spec
        return places.inside(str(spec.cwd), places.mounted(spec.mounts, spec.cwd)) or facts.cwd


register_environment(DockerEnvironment)
