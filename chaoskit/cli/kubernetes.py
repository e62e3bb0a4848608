"""The command `chaoskit kubernetes check`: its options, and what it does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chaoskit.cli import kubernetes_manifest
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from chaoskit.environments.kubernetes.cluster_check import ClusterFinding
    from chaoskit.environments.kubernetes.kubeconfig import ClusterAddress

#: Seconds for which a request is repeated while the server is busy or away.
PATIENCE = 10.0


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "check whether a Kubernetes cluster has what chaoskit will need there"
    command = commands.add_parser("kubernetes", help=text, description=text.capitalize() + ".")
    parts = command.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=type(command))

    text = "check permissions, versions, Chaos Mesh, kinds of job and the quota of a namespace"
    check = parts.add_parser(
        "check",
        help=text,
        usage="chaoskit kubernetes check --context NAME --namespace NAME [options]",
        description=f"C{text[1:]}. Makes nothing in the cluster.",
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
    about = "print the smallest Role that suffices and its RoleBinding, as YAML, instead of the check"
    check.add_argument("--role", action="store_true", help=about)
    check.set_defaults(do=do)
    kubernetes_manifest.add_to(parts)


def do(args: argparse.Namespace) -> int:
    """Check the cluster, or print the Role."""
    from chaoskit.environments.kubernetes import cluster_check, guards
    from chaoskit.environments.kubernetes.connection import ClusterConnection
    from chaoskit.report.terminal.table import console_for

    if not args.namespace:
        raise UsageError("--namespace is missing: name the one in which jobs will run")
    guards.check_allowed_namespace(args.namespace, [args.namespace])
    address = _address(args)
    guards.check_not_production(address, i_mean=args.i_mean)
    connection = ClusterConnection(address, patience=PATIENCE)
    try:
        if args.role:
            print(cluster_check.smallest_role(connection, args.namespace).as_yaml(), end="")
            return ExitCode.PASS
        return show(cluster_check.examine(connection, args.namespace), console_for(sys.stdout))
    finally:
        connection.close()


def _address(args: argparse.Namespace) -> ClusterAddress:
    from chaoskit.environments.kubernetes import kubeconfig

    if args.in_cluster:
        if args.context or args.kubeconfig:
            other = "--context" if args.context else "--kubeconfig"
            raise UsageError(f"--in-cluster and {other} exclude each other: give only one of them")
        return kubeconfig.in_cluster()
    return kubeconfig.of_context(args.context or "", file=args.kubeconfig)


def show(found: Sequence[ClusterFinding], console: Console) -> int:
    """Print the findings and what was not checked; returns the exit code."""
    from chaoskit.cli import doctor
    from chaoskit.environments.kubernetes.cluster_check import NOT_CHECKED

    doctor.show([doctor.DoctorFinding(one.what, one.found, one.good, one.remedy) for one in found], console)
    console.print()
    console.print(f"Not checked: {'; '.join(NOT_CHECKED)}.")
    lacking = [one.what for one in found if one.needed and not one.good]
    if lacking:
        console.print(f"Missing: {', '.join(lacking)}.")
        console.print("chaoskit kubernetes check --role prints the Role that grants every permission.", soft_wrap=True)
        return ExitCode.INCONCLUSIVE
    console.print("All that is needed is there.")
    return ExitCode.PASS
