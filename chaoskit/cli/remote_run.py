"""`chaoskit run --harness-image`: chaoskit runs in a pod of the cluster, for a machine without the volume."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import configuration, options
from chaoskit.cli.output import complain, targets_of
from chaoskit.cli.toml_text import toml_value
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.nodes import ClusterPlace

#: How the cluster is reached from here, and where this run lies: inside, the pod knows better.
_HERE = ("env", "context", "kubeconfig", "i-mean", "address", "dir")
#: Options that name files: they are written in the pod and brought here.
_FILES = ("json", "report", "summary", "badge", "junitxml")


def do(args: argparse.Namespace, found: configuration.Configuration | None) -> int:
    """Run chaoskit in a pod with the same arguments, show its output, and bring its files here."""
    from chaoskit.environments.kubernetes.remote_harness import RemoteHarness
    from chaoskit.environments.kubernetes.returned_files import unpack
    from chaoskit.report.machine import json_report

    place = _place(args, found)
    command = args.command or (list(found.command) if found is not None else [])
    targets_of(args)
    if args.junitxml:
        json_report.check_target(args.junitxml, option="--junitxml")
    wanted = {name: Path(value) for name in _FILES if (value := getattr(args, name)) not in (None, "-")}
    to_stdout = args.json == "-"
    if to_stdout:
        wanted["json"] = Path("/dev/stdout")
    harness = RemoteHarness(place, image=args.harness_image, account=args.harness_account, settings=_settings(found))
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
    if args.job_template or (found is not None and "job_template" in found.pods):
        raise UsageError(
            "--harness-image does not take a job template along: start chaoskit where the volume and the file are"
        )
    if not args.image:
        raise UsageError("--image is missing: the job runs in it")
    if not args.command and not (found is not None and found.command):
        raise UsageError("the command of the job is missing: put it after '--', or into [tool.chaoskit]")
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
            words.append(f"--{option.name}={shlex.join(value) if option.convert is options.words else value}")
    words += [f"--{name}={RESULTS}/{name}" for name in wanted]
    flags = {"--quick": args.quick, "-x": args.x, "--verbose": args.verbose, "--no-proof": args.no_proof}
    words += [flag for flag, given in flags.items() if given]
    valued = {"-k": args.k, "-n": args.n, "--fail-on": args.fail_on, "--only": args.only}
    words += [word for flag, value in valued.items() if value for word in (flag, str(value))]
    return [*words, "--", *command]


def _settings(found: configuration.Configuration | None) -> str:
    """What of the configuration file cannot be said by arguments, as chaoskit.toml of the pod."""
    told: dict[str, Any] = {}
    if found is not None:
        keys = {field: key for key, (field, _) in configuration.POD_KEYS.items()}
        told["variables"] = dict(found.variables)
        told["kubernetes"] = {keys[field]: value for field, value in found.pods.items()}
        accepted = [asdict(each) for each in found.acceptances]
        told["accept"] = [{key: one[key] for key in configuration.ACCEPT_KEYS if one[key]} for one in accepted]
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in told.items() if value)
