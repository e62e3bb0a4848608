"""The command `chaoskit prove`: repeats a stored run, or all experiments of a suite, with the state put back that they
had lost."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from chaoskit.cli import options
from chaoskit.cli.foreign_runs import add_yes
from chaoskit.cli.output import complain_unended, say, targets_of
from chaoskit.errors import CODES, ExitCode, UsageError
from chaoskit.validation import near_miss

if TYPE_CHECKING:
    from chaoskit.studies.problems.problem import Problem, Proof

#: The exit code for each outcome of a proof.
EXIT_CODES = {
    "proven": ExitCode.PASS,
    "more-lost": ExitCode.FAIL,
    "impossible": ExitCode.INCONCLUSIVE,
}
SAID = {"proven": "proven", "more-lost": "more is lost", "impossible": "not proven"}


def add_to(commands: Any) -> None:
    """Add the command to those of `chaoskit`."""
    text = "repeat a stored run with the state put back that it had lost, and say whether it lost anything else"
    command = commands.add_parser(
        "prove",
        help=text,
        description=f"{text.capitalize()}. The exit code is 0 if the repeated run is exact to the bit, or if the "
        "stored run lost no state; 1 if it is not exact: something else is lost; 3 if the state cannot be put back. "
        "With --all it is that of the worst problem.",
    )
    command.add_argument(
        "run", metavar="RUN", nargs="?", help="a stored run: its directory, its id, or a prefix of its id"
    )
    command.add_argument(
        "--all",
        metavar="SUITE",
        nargs="?",
        const="last",
        help="repeat every experiment of a suite that shows lost state, and count those that pass then; the suite is "
        "its id, a prefix of it, or 'last' (the default)",
    )
    command.add_argument(
        "--code",
        metavar="CODE",
        action="append",
        default=[],
        help="put back only what this code names, such as rng-not-restored (may be given several times)",
    )
    options.add_to_parser(command, "dir", "env", "launch", "timeout", "json")
    add_yes(command)
    command.set_defaults(do=do)


def do(args: argparse.Namespace) -> int:
    """Repeat the run, or the experiments of the suite, and say what that shows."""
    for code in args.code:
        _check_code(code)
    if (args.run is None) == (args.all is None):
        raise UsageError("name a stored RUN, or a suite with --all; 'chaoskit prove --all' takes the last suite")
    targets_of(args)  # before the job runs: the file must be one that can be written
    return _one(args) if args.all is None else _all(args)


def _one(args: argparse.Namespace) -> int:
    from chaoskit.cli.stored_runs import runner_for, stored_run
    from chaoskit.studies.putting_back import prove

    run, store = stored_run(args)
    record = store.read(run.dir)
    if record.get("put_back"):
        raise UsageError(f"{run.dir} is itself a run in which state was put back: name the run that lost it")
    if not store.is_judged(run.dir):
        raise UsageError(f"no check was applied to {run.dir}: 'chaoskit analyze {run.id}' applies some")
    with runner_for(
        run, store, environment=args.env, launch=args.launch, timeout=args.timeout, yes=args.yes
    ) as runner:
        proof = prove(runner, run, codes=args.code)
    _show(proof, args, name=record["experiment"] or run.id)
    return EXIT_CODES[proof.outcome] if proof is not None else ExitCode.PASS


def _check_code(code: str) -> None:
    if code not in CODES:
        raise UsageError(f"--code: there is no code {code!r}{near_miss(code, CODES)}")


def _all(args: argparse.Namespace) -> int:
    from chaoskit import environments
    from chaoskit.cli.proofs import Repeater, prove_all
    from chaoskit.engine.run_store import Store
    from chaoskit.studies.nights.archive import Archive
    from chaoskit.studies.problems.suite_problems import problems_of

    if args.env:
        environments.must_have(args.env)
    archive = Archive(Store(options.root_of(args)))
    suite = archive.read(archive.resolve(args.all))
    complain_unended(suite)
    repeater = Repeater(
        archive.store,
        launch=args.launch or "auto",
        environment=args.env or "",
        timeout=args.timeout,
        yes=args.yes,
    )
    proofs = prove_all(suite.results, repeater, codes=args.code)
    # What a proof of one component leaves out is no finding about the experiment.
    if proofs and not args.code and (archive.directory / f"{suite.id}.jsonl").exists():
        archive.add_proofs(suite, proofs)
    named = [one for one in problems_of(suite.results, proofs=proofs) if one.proof is not None]
    told = [one for one in named if not args.code or one.code in args.code]
    _show_all(told, proofs, args)
    return _worst(told)


def _worst(problems: Sequence[Problem]) -> ExitCode:
    outcomes = {one.proof.outcome for one in problems if one.proof is not None}
    worst = next((one for one in ("more-lost", "impossible") if one in outcomes), "proven")
    return EXIT_CODES[worst]


def _show_all(problems: Sequence[Problem], proofs: Sequence[Proof], args: argparse.Namespace) -> None:
    lines = [f"{one.code}: {SAID[one.proof.outcome]}: {one.proof.sentence}" for one in problems if one.proof]
    lines += [
        f"  {proof.experiment}: {SAID[proof.outcome]}: {proof.sentence}"
        for proof in proofs
        if proof.outcome != "proven"
    ]
    which = " that these codes name" if args.code else ""
    text = "\n".join(lines) or f"nothing to prove: no experiment of the suite lost state{which}"
    document = {"problems": [one.to_json() for one in problems], "proofs": [asdict(proof) for proof in proofs]}
    _write(text, document, args)


def _show(proof: Proof | None, args: argparse.Namespace, *, name: str) -> None:
    if proof is None:
        which = " that these codes name" if args.code else ""
        text = f"{name}: nothing to prove: the run lost no state{which}"
    else:
        text = f"{name}: {SAID[proof.outcome]}: {proof.sentence}"
        if proof.run:
            text += f"\nthe further run: chaoskit explain {proof.run}"
    _write(text, asdict(proof) if proof is not None else None, args)


def _write(text: str, document: object, args: argparse.Namespace) -> None:
    """Print the text, and write the document where `--json` says."""
    say(text, file=sys.stderr if args.json == "-" else sys.stdout)
    if args.json:
        content = json.dumps(document, indent=1) + "\n"
        if args.json == "-":
            sys.stdout.write(content)
        else:
            with open(args.json, "w", encoding="utf-8") as file:
                file.write(content)
