"""`KubernetesEnvironment`: each node of a job is a pod of the job's own image, in a namespace for faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chaoskit.environments.agents.agent_line import AgentDoor
from chaoskit.environments.agents.file_owners import FileOwners
from chaoskit.environments.agents.package_copy import copy_of
from chaoskit.environments.environment import RunSpec
from chaoskit.environments.gate.doors import TcpDoor
from chaoskit.environments.kubernetes import cluster_needs, objects, permissions
from chaoskit.environments.kubernetes.api_kinds import SERVICES
from chaoskit.environments.kubernetes.chaos.pod_faults import PodMesh
from chaoskit.environments.kubernetes.cluster import connection_to
from chaoskit.environments.kubernetes.connection import ClusterConnection
from chaoskit.environments.kubernetes.controlled_pods import ControlledPods
from chaoskit.environments.kubernetes.image_look import examine
from chaoskit.environments.kubernetes.job_faults import JobFaults
from chaoskit.environments.kubernetes.job_template import digest, must_suit, of_place
from chaoskit.environments.kubernetes.objects import RunObjects
from chaoskit.environments.kubernetes.pod_additions import PodAdditions
from chaoskit.environments.kubernetes.pod_channel import address_for_pods, host_of_doors
from chaoskit.environments.kubernetes.pod_clocks import PodClockFaults
from chaoskit.environments.kubernetes.pod_evictions import PodEvictions
from chaoskit.environments.kubernetes.pod_limits import PodLimits
from chaoskit.environments.kubernetes.pod_manifest import NAMES_ROLE, NODE_ROLE, TOKEN, names_service, on_volume
from chaoskit.environments.kubernetes.pods import PodNodes
from chaoskit.environments.kubernetes.run_owner import id_in_cluster
from chaoskit.environments.kubernetes.selectors import RunSelector
from chaoskit.environments.kubernetes.stored_runs import swept
from chaoskit.environments.kubernetes.supervised_job import SupervisedJob
from chaoskit.environments.launch.rank_modules import PACKAGE
from chaoskit.environments.machine import requirements
from chaoskit.environments.machine.job_on_nodes import JobOnNodes
from chaoskit.environments.machine.machine_run import MachineRun
from chaoskit.environments.machine.node_roster import NodeRoster
from chaoskit.environments.machine.run_files import RunFiles
from chaoskit.environments.registry import register_environment
from chaoskit.environments.traits import EnvironmentTraits
from chaoskit.errors import ChaoskitError, UsageError
from chaoskit.files.removal import remove
from chaoskit.job import Job
from chaoskit.nodes import ClusterPlace
from chaoskit.protocol.fingerprint import LENT, library

MOST_NODES = 32


class KubernetesEnvironment(RunFiles, PodEvictions, PodLimits, PodClockFaults, JobFaults):
    """Runs a job in pods; fulfils `Environment`, the capabilities of `RunFiles`, since chaoskit has the volume of the
    runs itself, those of `PodEvictions`, with a job template those of `JobFaults`, and, where Chaos Mesh is, those of
    `PodMeshFaults`, `PodLimits` and `PodClockFaults`."""

    traits = EnvironmentTraits(
        name="kubernetes",
        summary="pods of the job's own image, each node one",
        needs="a namespace for faults, a volume that pods and chaoskit share, and the image",
        nodes_most=MOST_NODES,
        launches_warm=True,
        shares_files=True,
        storage_per_node=True,
        plain_fails=True,
        one_clock=False,
        files_here=False,
        options=("image", "namespace", "volume", "context", "kubeconfig", "i-mean", "address", "job-template"),
    )

    def __init__(self, spec: RunSpec) -> None:
        place = _place_of(spec.cluster)
        self._template = of_place(place)
        self._place = place if self._template is None else self._template.place(place)
        # A pod has a control group of its own, which only the cluster may change.
        RunFiles.__init__(self, MachineRun(replace(spec, limits=()), identify=self.identify))
        kind = JobOnNodes if self._template is None else SupervisedJob
        self.job = kind(self.run, NodeRoster(MOST_NODES), self)
        self._lost, self._evictions = set(), {}
        PodClockFaults.__init__(self)
        self._pods: PodNodes | None = None
        self._mesh: PodMesh | None = None
        self._owners: FileOwners | None = None
        self._service = ""
        self._cwd = ""

    @staticmethod
    def available() -> str | None:
        """None if this machine can reach clusters, else the reason and the remedy."""
        if find_spec("kubernetes") is None:
            return "the Python package kubernetes is missing: pip install 'chaoskit[kubernetes]'"
        return requirements.why_not()

    @staticmethod
    def storage_available() -> str | None:
        """None: it has no storage of ours, and makes a plain one fail."""
        return None

    @staticmethod
    def lacks(capability: type, job: Job | None) -> str | None:
        """Some need more of the cluster, of the pods or of the job than every run does."""
        return None if job is None or job.cluster is None else cluster_needs.why_not(capability, job.cluster)

    @staticmethod
    def rests_on(job: Job) -> Mapping[str, Any]:
        """The image as the cluster has it."""
        if job.mounts:
            raise UsageError(
                f"--mount {job.mounts[0]}: pods do not see files of this machine: put them into the image, or on the "
                "volume of the claim, below the directory of the runs"
            )
        place, template = _place_of(job.cluster), of_place(job.cluster)
        if template is not None:
            must_suit(job, template)
            place = template.place(place)
            permissions.must_have(
                connection_to(place), place.namespace, job=template.job.api, claims=template.makes_claims
            )
        facts = examine(place, job.image, program=job.words()[0])
        return {"image": facts.id, **({"template": digest(template)} if template is not None else {})}

    @staticmethod
    def sweep(root: Path) -> tuple[str, ...]:
        """What dead harnesses have left in the clusters that stored runs name. Raises ChaoskitError where one of them
        cannot be reached, and where something cannot be removed."""
        return swept(root)

    @staticmethod
    def path_here(job: Job, path: str) -> str | None:
        """Files of the image are there as long as its id is the same; those of the volume are here, too."""
        place = job.cluster
        return path if place is not None and Path(place.path) in Path(path).parents else None

    @property
    def pods(self) -> PodNodes:
        """See `PodFaults` and `JobFaults`."""
        assert self._pods is not None, "the environment has not been entered"
        return self._pods

    @property
    def mesh(self) -> PodMesh:
        """See `PodMeshFaults`."""
        assert self._mesh is not None, "the environment has not been entered"
        return self._mesh

    def out(self) -> Path:
        """See `CanTouchFiles`."""
        found = RunFiles.out(self)
        self.owners.take()
        return found

    def __enter__(self) -> KubernetesEnvironment:
        run, spec, place = self.run, self.run.spec, self._place
        template = self._template
        on_volume(place, run.run_dir)
        connection = connection_to(place)
        host, name = host_of_doors(place, connection)
        makes_claims = template is not None and template.makes_claims
        job = template.job.api if template is not None else None
        permissions.must_have(connection, place.namespace, job=job, claims=makes_claims)
        objects.sweep(connection, place.namespace)
        facts = examine(place, spec.image, program=spec.program, run_dir=run.run_dir)
        if template is not None and template.user is not None:
            facts = replace(facts, uid=template.user)
        owners = self._owners = FileOwners(run, facts.uid, self.hand_over)
        run.begin(door=lambda: TcpDoor(host, known_as=name))
        try:
            owners.open()
            door = AgentDoor(TcpDoor(host, known_as=name))
            run.keep(door.close)
            token = run.run_dir / TOKEN
            token.touch(mode=0o600)
            token.write_text(door.token)
            if owners.is_closed_to_job:
                token.chmod(0o644)
            run.keep(lambda: remove(token, within=run.run_dir))
            address = address_for_pods(place, run, door, is_over=self._is_over, for_all=owners.is_closed_to_job)
            self._cwd = (template.directory if template is not None else "") or facts.cwd
            made = RunObjects(
                connection, namespace=place.namespace, run_id=id_in_cluster(spec.run_id), run_dir=run.run_dir,
                makes_claims=makes_claims,
            )  # fmt: skip
            # A controller would replace pods whose agents go before its Job.
            run.keep(self._close_pods)
            run.keep(lambda: _close(made))
            self._service = f"chaoskit-{made.identity.run}"
            nodes = RunSelector(made.identity, NODE_ROLE).labels
            made.create(SERVICES, names_service(self._service, nodes), role=NAMES_ROLE)
            store = (spec.store or run.run_dir).absolute()
            package = copy_of(PACKAGE.resolve(), store)
            lent = {LENT: str(copy_of(Path(found).resolve(), store))} if (found := library()) else {}
            added = PodAdditions(
                place=place, service=self._service, python=facts.python, package=package, address=address,
                run_dir=run.run_dir, store=store, variables=lent,
            )  # fmt: skip
            pods = self._pods = self._made_pods(made, added, connection=connection, door=door)
            self._mesh = PodMesh.of(pods, volume=run.run_dir, out=spec.out.absolute())
            for part in self._mesh.parts:
                run.keep(part.close)
            for _ in range(spec.nodes.most):
                self.bring_up()
            remedy = f"build the image with another user, or let it write to the volume of the claim {place.claim!r}"
            self.check_first_node(facts, remedy=remedy)
            run.keep(owners.take)
            run.keep(run.close_launch)
        except BaseException:
            run.end()
            raise
        return self

    def _made_pods(
        self, made: RunObjects, added: PodAdditions, *, connection: ClusterConnection, door: AgentDoor
    ) -> PodNodes:
        """The pods of the run, none of which is there yet; the controller of a job template begins to make them."""
        template, image = self._template, self.run.spec.image
        if template is None:
            return PodNodes(
                connection, made, door=door, roster=self.job.roster, service=self._service,
                manifest=lambda node, pod: added.node_pod(pod, node=node, image=image),
            )  # fmt: skip
        assert isinstance(self.job, SupervisedJob)
        return self.job.make_pods(
            template, made, added, connection=connection, door=door, before_end=self.owners.take
        )

    def __exit__(self, *exc: object) -> None:
        self.run.end()

    def _is_over(self, pod: str) -> bool:
        return self._pods is not None and self._pods.is_over(pod)

    def _close_pods(self) -> None:
        if self._pods is not None:
            self._pods.close()

    def stop(self) -> tuple[Mapping[str, Any], ...]:
        """See `Environment`."""
        self.job.roster.away.clear()
        return RunFiles.stop(self)

    def meeting_host(self) -> str:
        """See `AgentJob`: below the service of the run."""
        return f"{self.job.meeting}.{self._service}"

    def _request(self, node: str) -> dict[str, Any]:
        """See `AgentJob`. With a template the command is that of the pod, where the cluster has filled it in; the
        template alone tells torchrun where the others are, and what it sets stays."""
        request = PodEvictions._request(self, node)
        if self._template is None:
            return request
        assert isinstance(self._pods, ControlledPods)
        spec, own = request["spec"], self._template.variables
        given = {name: value for name, value in spec["env"].items() if name not in own}
        told = {
            name: value
            for name, value in request["node"].items()
            if name not in own and (name == "PET_LOG_DIR" or not name.startswith("PET_"))
        }
        return {**request, "command": self._pods.command(node), "spec": {**spec, "env": given}, "node": told}

    def variables_of(self, node: str) -> dict[str, str]:
        """See `AgentJob`. A pod knows its own name, and the others know it by that of the service alone."""
        return {"PET_LOCAL_ADDR": self.pods.now[node].address}

    def bring_up(self, node: str | None = None) -> str:
        """See `NodeMaker`."""
        made = self.pods.make(node)
        if made in self.nodes():  # else its part of the job is completed, and there is no pod again
            self.mesh.came_up(made)
        return made


def _place_of(cluster: ClusterPlace | None) -> ClusterPlace:
    if cluster is None:
        raise UsageError(
            "environment 'kubernetes' needs --namespace NAME and --volume CLAIM:PATH, and outside of a pod --context "
            "NAME"
        )
    return cluster


def _close(made: RunObjects) -> None:
    """Remove everything of the run. Raises ChaoskitError that says exactly what is left."""
    report = made.close()
    if report.sentences:
        raise ChaoskitError("; ".join(report.sentences))


register_environment(KubernetesEnvironment)
