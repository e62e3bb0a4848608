"""The command `chaoskit prove`: repeats a stored run with the state put back that it had lost."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.cli.near_miss import near_miss
from chaoskit.errors import CODES, ExitCode, UsageError

if TYPE_CHECKING:
    from chaoskit.studies.problems.problem import Proof

#: The exit code for each outcome of a proof.
EXIT_CODES = {
    "proven": ExitCode.PASS,
    "more-lost": ExitCode.FAIL,
    "impossible": ExitCode.INCONCLUSIVE,
}


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "repeat a stored run with the state put back that it had lost, and say whether it lost anything else"
    command = commands.add_parser(
        "prove",
        help=text,
        description=f"{text.capitalize()}. The exit code is 0 if the repeated run is exact to the bit, or if the "
        "stored run lost no state; 1 if it is not exact: something else is lost; 3 if the state cannot be put back.",
    )
    command.add_argument("run", metavar="RUN", help="a stored run: its directory, its id, or a prefix of its id")
    command.add_argument(
        "--code",
        metavar="CODE",
        action="append",
        default=[],
        help="put back only what this code names, such as rng-not-restored (may be given several times)",
    )
    options.add_to_parser(command, "dir", "env", "launch", "timeout", "json")
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Repeat the run and say what it shows."""
    from chaoskit import environments
    from chaoskit.cli.output import targets_of
    from chaoskit.cli.stored_runs import stored_run
    from chaoskit.engine.progress import progress_on
    from chaoskit.engine.runner import Runner
    from chaoskit.studies.putting_back import prove

    for code in args.code:
        _check_code(code)
    targets_of(args)  # before the job runs: the file must be one that can be written
    run, store = stored_run(args)
    record = store.read(run.dir)
    if record.get("put_back"):
        raise UsageError(f"{run.dir} is itself a run in which state was put back: name the run that lost it")
    if not (run.dir / "verdicts.json").exists():
        raise UsageError(f"no check was applied to {run.dir}: 'chaoskit analyze {run.id}' applies some")
    environment = args.env or record["environment"]
    environments.must_have(environment)
    progress = progress_on(sys.stderr)
    runner = Runner(
        store,
        environment=environment,
        experiment=record["experiment"],
        progress=progress,
        launch=args.launch or "auto",
        timeout=args.timeout,
    )
    try:
        proof = prove(runner, run, codes=args.code)
    finally:
        progress.stop()
    _show(proof, args, name=record["experiment"] or run.id)
    return EXIT_CODES[proof.outcome] if proof is not None else ExitCode.PASS


def _check_code(code: str) -> None:
    if code not in CODES:
        raise UsageError(f"--code: there is no code {code!r}{near_miss(code, CODES)}")


def _show(proof: Proof | None, args: argparse.Namespace, *, name: str) -> None:
    if proof is None:
        which = " that these codes name" if args.code else ""
        text = f"{name}: nothing to prove: the run lost no state{which}"
    else:
        said = {"proven": "proven", "more-lost": "more is lost", "impossible": "not proven"}[proof.outcome]
        text = f"{name}: {said}: {proof.sentence}"
        if proof.run:
            text += f"\nthe further run: chaoskit explain {proof.run}"
    print(text, file=sys.stderr if args.json == "-" else sys.stdout)
    if args.json:
        content = json.dumps(asdict(proof) if proof is not None else None, indent=1) + "\n"
        if args.json == "-":
            sys.stdout.write(content)
        else:
            with open(args.json, "w", encoding="utf-8") as file:
                file.write(content)
