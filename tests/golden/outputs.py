"""Golden outputs: the sentences of the terminal, whole, beside the code. `python -m tests.golden.outputs` renews them.

Other tests assert codes and evidence. These files hold the wording, so that a change of it is seen in review.
"""

import io
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

from rich.console import Console

from chaoskit import checks
from chaoskit.analysis.crash_model import crash_states
from chaoskit.checks import judge as judge_checks
from chaoskit.cli import kubernetes
from chaoskit.cli.main import make_parser
from chaoskit.engine.coded_finding import CodedFinding
from chaoskit.engine.result import Result, of_error, of_verdicts
from chaoskit.environments.kubernetes import cluster_check
from chaoskit.errors import ReferenceFailed
from chaoskit.nodes import ClusterPlace
from chaoskit.remedies import REMEDIES
from chaoskit.report.headline import headline
from chaoskit.report.story import story
from chaoskit.report.terminal import crash_report, problem_list, table
from chaoskit.studies.crash_states.explore import judge as judge_state
from chaoskit.studies.crash_states.result import Exploration
from chaoskit.studies.crash_states.resume_trial import Answer
from chaoskit.studies.problems.problem import Proof
from chaoskit.studies.problems.suite_problems import problems_of, undecided
from tests.analysis.crash_model.script import Script
from tests.environments.kubernetes.staged_cluster import StagedCluster
from tests.history_writer import killed

HERE = Path(__file__).parent
CLAIMS = (
    checks.completed(), checks.resumed_from_last_valid(), checks.state_restored(), checks.same_data(),
    checks.matches_reference(),
)  # fmt: skip


def console():
    return Console(file=io.StringIO(), width=80, color_system=None)


def lost_generator():
    """A run whose rank 1 did not restore a random stream, and its verdicts."""
    case = killed(off={(1, "rng.torch"): 0}).case()
    return case, judge_checks(case, CLAIMS)


def terminal_table():
    """The table of `chaoskit run`, and why an experiment failed."""
    _, verdicts = lost_generator()
    figures = {"resumed_from": 20, "last_valid": 20, "steps_lost": 5, "recovery_seconds": 1.1, "seconds": 21.4}
    good = Result("test_control", "pass", seconds=18.2, launched=("warm",))
    bad = of_verdicts("test_one_rank_mid_epoch", verdicts)
    bad = Result(
        **{**bad.__dict__, **figures, "launched": ("warm",), "run": "/store/runs/20261123-083747-636757d5e7"}
    )
    open_ = Result("test_flip", "inconclusive", ("fault-not-observed",), sentences=("The flip was not observed.",))
    shown = console()
    table.show([good, bad, open_], shown, seconds=41.0, look=table.look_at("--last-suite"))
    return shown.file.getvalue()


def problems():
    """What `chaoskit run` ends with: problems, weaknesses, and what could not be judged."""

    def found(name, *findings, seconds=5.0, verdict="fail"):
        run = f"/store/runs/20261123-0837{len(name):02}-636757d5e7"
        return Result(
            name, verdict, codes=tuple(one.code for one in findings), findings=findings, seconds=seconds, run=run,
            launched=("warm",), waited_seconds=12.0,
        )  # fmt: skip

    def finding(code, sentence, **fields):
        return CodedFinding(code, sentence, advice=REMEDIES[code], **fields)

    data = finding(
        "data-replayed",
        "The position in the data is not restored: resumed from step 30, the job reads the data of step 1 instead of "
        "31 (reads 480 rows again).",
        at=0,
    )
    stream = finding(
        "rng-not-restored",
        "The random state is not restored: resumed from step 30, stream torch of every rank is that of step 0.",
    )
    torn = finding(
        "torn-checkpoint",
        "the job did not recover in 3 relaunches; the last one exited with code 1: the fault left the save of step 20 "
        "unfinished, and every later restart failed before a step; in the last launch rank 0 failed with EOFError",
        check="completed",
    )
    loop = finding("crash-loop", torn.sentence, follows="torn-checkpoint")
    results = [
        found("test_resume", data, stream, seconds=4.0),
        *(found(f"test_resume_{n}", data, stream) for n in range(21)),
        found("test_twice", data),
        found("test_middle_of_save", torn, loop),
        found("test_write_error", loop),
        found("test_not_a_number", finding("nonfinite-accepted", "It trained on nan.", weakness=True)),
        found("test_transient_error", finding("needless-restart", "It restarted.", weakness=True)),
        *(
            found(name, finding("fault-not-observed", "the flip was not observed"), verdict="inconclusive")
            for name in ("test_flip", "test_flips")
        ),
        *(Result(f"test_good_{n}", "pass", launched=("warm",)) for n in range(4)),
        Result("test_skipped", "skipped"),
    ]
    proof = Proof(
        "proven",
        "with the position in the data and the random streams put back, the run is exact to the bit.",
        put_back=("batch", "rng.torch"),
        experiment="test_resume",
    )
    shown = console()
    listed = problems_of(results, proofs=[proof])
    look = table.look_at("--last-suite")
    problem_list.show(listed, undecided(results), results, shown, seconds=93.1, look=look)
    crash = ReferenceFailed("the job crashed", run="/store/references/x/control-0")
    failed = [of_error(name, crash, []) for name in ("test_resume", "test_twice")]
    shown.print()
    problem_list.show(problems_of(failed), undecided(failed), failed, shown, seconds=3.0, look=look)
    return shown.file.getvalue()


def explain():
    """What `chaoskit explain` prints, after the sentence that leads the page of the run."""
    case, verdicts = lost_generator()
    shown = console()
    shown.print(table.alignment_table(case.table()))
    lines = [headline(case, verdicts).sentence, *map(str, story(case, verdicts)), shown.file.getvalue()]
    return "\n".join(lines)


def crash_states_report():
    """The report of `chaoskit crash-states` on a trainer that renames a directory and never calls fsync."""
    with tempfile.TemporaryDirectory() as name:
        script = Script(Path(name) / "out")
        script.mkdir("step-20")
        script.create("step-20/state.pt")
        script.write("step-20/state.pt", b"good" * 100)
        first = len(script.operations)
        script.mkdir("new")
        script.create("new/state.pt")
        script.write("new/state.pt", b"better" * 100)
        script.rename("new", "step-40")
        found = crash_states(script.journal(), first=first, last=len(script.operations))
        judged = []
        for number, state in enumerate(found.states):
            state.materialise(Path(name) / str(number))
            judged.append(judge_state(state, resume(Path(name) / str(number)), lambda done: frozenset({20, 40})))
    run = SimpleNamespace(dir="/store/runs/20261123-090000-0123456789")
    one = Exploration(run, 40, found, tuple(judged), 12.3, tried=0, unlike=0)
    shown = console()
    crash_report.show(one, shown)
    return shown.file.getvalue()


def resume(out):
    """A trainer that loads the newest checkpoint, and checks nothing."""
    for step in (40, 20):
        if (out / f"step-{step}").is_dir():
            file = out / f"step-{step}" / "state.pt"
            if not file.is_file() or not file.stat().st_size:
                return Answer("crashed", codes=(1, 1), message="EOFError: Ran out of input")
            whole = {40: b"better" * 100, 20: b"good" * 100}[step] == file.read_bytes()
            return Answer("resumed", step, {} if whole else {0: ("model",)})
    return Answer("resumed", 0)


def help_of_run():
    """`chaoskit run --help`, 100 columns wide."""
    before, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "100"
    try:
        parser = make_parser()
        (commands,) = (action for action in parser._actions if action.dest == "==SUPPRESS==" and action.choices)
        return f"{parser.format_help()}\n{commands.choices['run'].format_help()}"
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)


def kubernetes_check():
    """`chaoskit kubernetes check` where a permission and some kinds are missing, and the Role that it prints."""
    shown = console()
    cluster = StagedCluster(kinds=("NetworkChaos", "JobSet"), allows=lambda *asked: asked != ("", "pods", "list"))
    with cluster.serve() as script:
        connection = script.connection()
        place = ClusterPlace(namespace="staging", claim="runs", path="/runs")
        found = cluster_check.examine(connection, place)
        role = cluster_check.smallest_role(connection, "staging").as_yaml()
    open_questions = cluster_check.not_checked(place, image="", has_claim=False)
    kubernetes.show([one for one in found if one.what != "server"], shown, not_checked=open_questions)
    return f"{shown.file.getvalue()}\n{role}"


OUTPUTS = {
    "table.txt": terminal_table,
    "problems.txt": problems,
    "explain.txt": explain,
    "crash-states.txt": crash_states_report,
    "help.txt": help_of_run,
    "kubernetes-check.txt": kubernetes_check,
}


def stripped(text):
    """Without blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines()) + "\n"


if __name__ == "__main__":
    for name, make in OUTPUTS.items():
        (HERE / name).write_text(stripped(make()))
