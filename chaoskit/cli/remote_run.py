"""`chaoskit run --harness-image`: chaoskit runs in a pod of the cluster, for a machine without the volume."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chaoskit.cli import configuration, options
from chaoskit.cli.output import complain, targets_of
from chaoskit.cli.pod_files import job_words, pod_files
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.nodes import ClusterPlace

#: How the cluster is reached from here, and where this run lies: inside, the pod knows better. The job template goes
#: along as a file.
_HERE = ("env", "context", "kubeconfig", "i-mean", "address", "dir", "job-template")
#: Options that name files: they are written in the pod and brought here.
_FILES = ("json", "report", "summary", "badge", "junitxml")


def do(args: argparse.Namespace, found: configuration.Configuration | None) -> int:
    """Run chaoskit in a pod with the same arguments, show its output, and bring its files here."""
    from chaoskit.environments.kubernetes.remote_harness import RemoteHarness
    from chaoskit.environments.kubernetes.returned_files import unpack
    from chaoskit.report.machine import json_report

    place = _place(args, found)
    command = job_words(args, found, place)
    targets_of(args)
    if args.junitxml:
        json_report.check_target(args.junitxml, option="--junitxml")
    wanted = {name: Path(value) for name in _FILES if (value := getattr(args, name)) not in (None, "-")}
    to_stdout = args.json == "-"
    if to_stdout:
        wanted["json"] = Path("/dev/stdout")
    files = pod_files({}, found, place)
    harness = RemoteHarness(place, image=args.harness_image, account=args.harness_account, settings=files)
    complain(f"chaoskit runs in the pod {harness.pod} of namespace {place.namespace}")
    stream = (sys.stderr if to_stdout else sys.stdout).buffer

    def show(text: bytes) -> None:
        stream.write(text)
        stream.flush()

    def fetch(packed: bytes) -> None:
        unpack(packed, wanted, appended=frozenset({"summary"}))

    code = harness.run(_words(args, place, command, wanted), show=show, fetch=fetch)
    if code == ExitCode.INTERRUPTED:
        complain("interrupted")
    return code


def _place(args: argparse.Namespace, found: configuration.Configuration | None) -> ClusterPlace:
    if options.environment_of(args.env) != "kubernetes":
        raise UsageError(f"--harness-image is for --env kubernetes, not for {options.environment_of(args.env)!r}")
    for option, given in (("--dry-run", args.dry_run), ("--list", args.list)):
        if given:
            raise UsageError(f"{option} makes nothing: leave --harness-image out")
    if not args.context:
        raise UsageError("--harness-image needs --context NAME: in a pod, chaoskit runs there without it")
    place = options.cluster_of(vars(args), found.pods if found is not None else {})
    if place is None:
        raise UsageError("--namespace NAME and --volume CLAIM:PATH are missing: where the pods run")
    return place


def _words(
    args: argparse.Namespace, place: ClusterPlace, command: list[str], wanted: Mapping[str, Path]
) -> list[str]:
    """The arguments of chaoskit in the pod."""
    from chaoskit.environments.kubernetes.harness_inside import RESULTS
    from chaoskit.environments.kubernetes.pod_manifest import on_volume

    store = Path(args.dir) if args.dir else Path(place.path) / "chaoskit"
    on_volume(place, store)
    words = ["run", "--env=kubernetes", f"--dir={store}"]
    for option in options.SHARED:
        value = getattr(args, option.attribute)
        if option.name in (*_HERE, *_FILES) or value in (None, False):
            continue
        if value is True:
            words.append(f"--{option.name}")
        elif option.many:
            words += [f"--{option.name}={each}" for each in value]
        else:
            words.append(f"--{option.name}={shlex.join(value) if isinstance(value, list) else value}")
    words += [f"--{name}={RESULTS}/{name}" for name in wanted]
    flags = {"--quick": args.quick, "-x": args.x, "--verbose": args.verbose, "--no-proof": args.no_proof}
    words += [flag for flag, given in flags.items() if given]
    valued = {"-k": args.k, "-n": args.n, "--fail-on": args.fail_on, "--only": args.only}
    words += [word for flag, value in valued.items() if value for word in (flag, str(value))]
    return [*words, *(["--", *command] if command else [])]

