"""The command `chaoskit kubernetes check`: its options, and what it does."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import kubernetes_manifest, options
from chaoskit.cli.output import say
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from chaoskit.environments.kubernetes.cluster_finding import ClusterFinding
    from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress
    from chaoskit.nodes import ClusterPlace

#: Seconds for which a request is repeated while the server is busy or away.
PATIENCE = 10.0
#: The Roles that are printed: whether they are for faults of Chaos Mesh, too; None goes by what the cluster has.
ROLES = {"auto": None, "plain": False, "chaos-mesh": True, "laptop": False}


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "check whether a Kubernetes cluster has what chaoskit will need there"
    command = commands.add_parser("kubernetes", help=text, description=text.capitalize() + ".")
    parts = command.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=type(command))

    text = "check permissions, versions, admission, Chaos Mesh, kinds of job, the volume and the quota of a namespace"
    check = parts.add_parser(
        "check",
        help=text,
        usage="chaoskit kubernetes check --context NAME --namespace NAME [options]",
        description=f"C{text[1:]}. Makes nothing in the cluster, unless --image is given.",
        epilog="Exit code 0: all that is needed is there; 3: something is missing.",
    )
    check.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig; the current one is never used by itself"
    )
    check.add_argument("--namespace", metavar="NAME", help="namespace in which jobs will run")
    about = "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)"
    check.add_argument("--kubeconfig", metavar="FILE", help=about)
    about = "instead of --context: use the service account of the pod that chaoskit runs in"
    check.add_argument("--in-cluster", action="store_true", help=about)
    about = "repeat the name of a context that looks like production"
    check.add_argument("--i-mean", metavar="CONTEXT", help=about)
    about = "volume claim of the runs; with --image, two pods on two machines write to it"
    check.add_argument("--volume", metavar="CLAIM", help=about)
    about = "image of the job: short pods of it, and a fault that matches no pod, are made and removed"
    check.add_argument("--image", metavar="IMAGE", help=about)
    options.add_to_parser(check, "json")
    about = (
        "print the smallest Role that suffices and its RoleBinding, as YAML, instead of the check: 'plain', "
        "'chaos-mesh' for its faults as well, or 'laptop' for who starts 'run --harness-image' (default: as the "
        "cluster has it)"
    )
    check.add_argument("--role", nargs="?", const="auto", choices=tuple(ROLES), help=about)
    about = "with --role: bind it to this service account of the namespace (default: to you)"
    check.add_argument("--account", metavar="NAME", help=about)
    check.set_defaults(do=do)
    kubernetes_manifest.add_to(parts)
    inside = parts.add_parser("inside")  # for chaoskit itself, in the pod of `run --harness-image`
    inside.add_argument("--mark", required=True)
    inside.set_defaults(do=do_inside)


def do(args: argparse.Namespace) -> int:
    """Check the cluster, or print the Role."""
    from chaoskit.environments.kubernetes import cluster_check, guards
    from chaoskit.environments.kubernetes.connection import ClusterConnection
    from chaoskit.report.machine import json_report
    from chaoskit.report.terminal.table import console_for

    if not args.namespace:
        raise UsageError("--namespace is missing: name the one in which jobs will run")
    guards.check_allowed_namespace(args.namespace, [args.namespace])
    if args.json:
        json_report.check_target(args.json)
    place, makes_claims = _place(args)
    address = _address(args)
    guards.check_not_production(address, i_mean=args.i_mean)
    connection = ClusterConnection(address, patience=PATIENCE)
    try:
        if args.role:
            role = cluster_check.smallest_role(
                connection, args.namespace, chaos=ROLES[args.role], from_outside=args.role == "laptop",
                claims=makes_claims, account=args.account or "",
            )  # fmt: skip
            say(role.as_yaml(), end="")
            return ExitCode.PASS
        claim, image = bool(args.volume), args.image or ""
        found = cluster_check.examine(
            connection, place, has_claim=claim, makes_claims=makes_claims, image=image
        )
        open_questions = cluster_check.not_checked(place, image=image, has_claim=claim)
        if args.json:
            _write_json(found, open_questions, args.json)
        console = console_for(sys.stderr if args.json == "-" else sys.stdout)
        return show(found, console, not_checked=open_questions)
    finally:
        connection.close()


def do_inside(args: argparse.Namespace) -> int:
    """Run chaoskit in this pod with the words after '--', and wait until somebody has fetched its files."""
    from chaoskit.environments.kubernetes.harness_inside import run_inside

    return run_inside(args.command, mark=args.mark)


def _place(args: argparse.Namespace) -> tuple[ClusterPlace, bool]:
    """Where jobs will run, with the settings of pods from the configuration file, and whether its job template makes
    volume claims."""
    from chaoskit.cli import configuration
    from chaoskit.environments.kubernetes.job_template import makes_claims, read_template
    from chaoskit.nodes import ClusterPlace

    found = configuration.read(Path.cwd())
    claim, _, path = (args.volume or "runs").partition(":")
    given = {name: getattr(args, name) or "" for name in ("context", "kubeconfig", "i_mean")}
    pods = dict(found.pods) if found is not None else {}
    template = pods.pop("job_template", None)  # its pods are not those of the check
    place = ClusterPlace(**{"namespace": args.namespace, "claim": claim, "path": path or "/runs", **given, **pods})
    return place, template is not None and makes_claims(read_template(Path(template)))


def _address(args: argparse.Namespace) -> ClusterAddress:
    from chaoskit.environments.kubernetes import kubeconfig

    if args.in_cluster:
        if args.context or args.kubeconfig:
            other = "--context" if args.context else "--kubeconfig"
            raise UsageError(f"--in-cluster and {other} exclude each other: give only one of them")
        return kubeconfig.in_cluster()
    return kubeconfig.of_context(args.context or "", file=args.kubeconfig)


def _write_json(found: Sequence[ClusterFinding], not_checked: Sequence[str], target: str) -> None:
    """The findings as JSON, to a file or to standard output."""
    report = {"findings": [one.to_json() for one in found], "not_checked": list(not_checked)}
    text = json.dumps(report | {"missing": lacking(found)}, indent=2) + "\n"
    if target == "-":
        say(text, end="")
        return
    try:
        Path(target).write_text(text)
    except OSError as error:
        raise UsageError(f"--json {target}: it cannot be written ({error}): name another file") from error


def lacking(found: Sequence[ClusterFinding]) -> list[str]:
    """What is needed and is not there."""
    return [one.what for one in found if one.needed and not one.good]


def show(found: Sequence[ClusterFinding], console: Console, *, not_checked: Sequence[str]) -> int:
    """Print the findings and what was not checked; returns the exit code."""
    from chaoskit.cli import doctor

    doctor.show([doctor.DoctorFinding(one.what, one.found, one.good, one.remedy) for one in found], console)
    console.print()
    console.print(f"Not checked: {'; '.join(not_checked)}.")
    missing = lacking(found)
    if missing:
        console.print(f"Missing: {', '.join(missing)}.")
        if any(what.startswith("permission on ") for what in missing):
            console.print(
                "chaoskit kubernetes check --role prints the Role that grants every permission.", soft_wrap=True
            )
        return ExitCode.INCONCLUSIVE
    console.print("All that is needed is there.")
    return ExitCode.PASS
