"""A problem keeps everything on its way through JSON."""

import json

from chaoskit.studies.problems.problem import Problem, Proof


def test_round_trip():
    proof = Proof("more-lost", "The scaler is lost, too.", put_back=("rng",), codes=("scaler-not-restored",), run="/r")
    for one in (
        Problem("rng-not-restored", "A stream is lost.", "save it", ("test_resume", "test_twice"), proof=proof),
        Problem("torn-checkpoint", "It crashes.", "rename", ("test_middle_of_save",), consequences=("crash-loop",)),
    ):
        assert Problem.from_json(json.loads(json.dumps(one.to_json()))) == one
