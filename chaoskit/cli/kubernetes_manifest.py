"""The command `chaoskit kubernetes manifest`: its options, and what it does. It makes nothing, and asks no cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaoskit.cli import configuration, nightly, options, run
from chaoskit.cli.output import say
from chaoskit.cli.pod_files import job_words, pod_files
from chaoskit.cli.yaml_text import yaml_text
from chaoskit.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.nodes import ClusterPlace

#: Which cluster is meant, and how it is reached: in a pod of it nobody asks.
_FROM_OUTSIDE = ("context", "kubeconfig", "i-mean", "address")
#: Keys whose files have to be on the volume, or they go with the pod.
_FILES = ("json", "report", "summary", "badge", "junitxml")
#: Seconds that a night may take longer than its budget, before the cluster ends it.
SPARE = 3600


def add_to(parts: Any) -> None:
    """Add the command to those of `chaoskit kubernetes`."""
    text = "print a CronJob that runs 'chaoskit nightly' in the cluster, with its settings and rights, as YAML"
    command = parts.add_parser(
        "manifest",
        help=text,
        usage="chaoskit kubernetes manifest --harness-image IMAGE [options] [-- COMMAND...]",
        description=f"P{text[1:]}. Makes nothing, and asks no cluster. Settings and the command of the job come "
        "from the command line and from [tool.chaoskit], as for 'chaoskit nightly'.",
        epilog="Example: chaoskit kubernetes manifest --harness-image registry/chaoskit:1 --minutes 120 > night.yaml",
    )
    command.add_argument(
        "--harness-image", metavar="IMAGE", help="image that has chaoskit, with chaoskit[kubernetes]"
    )
    command.add_argument(
        "--schedule", metavar="CRON", default="0 2 * * *", help="when nights begin (default: '0 2 * * *')"
    )
    command.add_argument(
        "--name", metavar="NAME", default="chaoskit-nightly", help="name of all objects (default: chaoskit-nightly)"
    )
    command.add_argument("--harness-cpu", metavar="N", help="processors that the pod of chaoskit requests: 2")
    command.add_argument("--harness-memory", metavar="SIZE", help="memory of the pod of chaoskit: 4Gi")
    command.add_argument(
        "--chaos-mesh", action="store_true", help="also grant what faults of Chaos Mesh need, which is installed"
    )
    nightly.add_options(command)
    run.add_battery_options(command)
    options.add_to_parser(command)
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Print the manifests."""
    from chaoskit.environments.kubernetes.night_manifest import night_manifests

    found = configuration.read(Path.cwd())
    if found is not None:
        configuration.apply(args, found)
    for name, value in (found.night if found is not None else {}).items():
        if getattr(args, name) in (None, False):
            setattr(args, name, value)
    if args.env not in (None, "kubernetes"):
        raise UsageError(f"kubernetes manifest is for --env kubernetes, not for {args.env!r}: leave it out")
    if not args.harness_image:
        raise UsageError("--harness-image is missing: chaoskit runs in it")
    outside = dict.fromkeys(key.replace("-", "_") for key in _FROM_OUTSIDE)
    pods = found.pods if found is not None else {}
    place = options.cluster_of({**vars(args), **outside, "env": "kubernetes"}, pods)
    if place is None:
        raise UsageError("--namespace NAME and --volume CLAIM:PATH are missing: where the pods run")
    command = job_words(args, found, place)
    settings = pod_files(_settings(args, command, place), found, place)
    cpu, memory = args.harness_cpu, args.harness_memory
    requests = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    limits = {"memory": memory} if memory else {}
    shown = night_manifests(
        place,
        name=args.name,
        schedule=args.schedule,
        image=args.harness_image,
        settings=settings,
        arguments=["nightly", *_flags(args)],
        resources={name: each for name, each in (("requests", requests), ("limits", limits)) if each},
        deadline=60 * args.minutes + SPARE if args.minutes else None,
        chaos_mesh=args.chaos_mesh,
    )
    say(yaml_text(shown), end="")
    return ExitCode.PASS


def _settings(args: argparse.Namespace, command: list[str], place: ClusterPlace) -> dict[str, Any]:
    """The keys of chaoskit.toml in the pod that this command line decides."""
    from chaoskit.environments.kubernetes.pod_manifest import on_volume

    names = {"select": "k", "workers": "n"}
    told: dict[str, Any] = {"command": command} if command else {}
    for key in configuration.KEYS:
        value = getattr(args, names.get(key, key.replace("-", "_")))
        if value in (None, False) or key in _FROM_OUTSIDE:
            continue
        if key in _FILES:
            on_volume(place, Path(value).absolute())
            value = str(Path(value).absolute())
        told[key] = value
    told["env"] = "kubernetes"
    store = Path(args.dir).absolute() if args.dir else Path(place.path) / "chaoskit"
    on_volume(place, store)
    told["dir"] = str(store)
    told["nightly"] = _night(args, place)
    return told


def _night(args: argparse.Namespace, place: ClusterPlace) -> dict[str, Any]:
    from chaoskit.environments.kubernetes.pod_manifest import on_volume

    told = {name: value for name in nightly.ABOUT if (value := getattr(args, name)) not in (None, False)}
    if "publish" in told and "://" not in told["publish"]:
        told["publish"] = str(Path(told["publish"]).absolute())
        on_volume(place, Path(told["publish"]))
    return told


def _flags(args: argparse.Namespace) -> list[str]:
    """What a file cannot say."""
    flags = {"--strict": args.strict, "--no-proof": args.no_proof, "--verbose": args.verbose}
    return [flag for flag, given in flags.items() if given]
