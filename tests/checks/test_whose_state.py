"""State that is not what it should be: that of another name, of another rank, or of a save that held something else."""

import pytest

from chaoskit import checks
from chaoskit.analysis.diagnosis import diagnose
from chaoskit.analysis.reference.reference import Reference
from chaoskit.engine.result import of_verdicts
from chaoskit.protocol.fingerprint import of_bytes
from chaoskit.remedies import REMEDIES, remedies
from chaoskit.verdict import Outcome
from tests.history_writer import NAMES, Writer

ALL = (*NAMES, "options")
LAYERS = ("a.weight", "b.weight", "c.weight")


def digest(text):
    return of_bytes(text.encode())


def moments(position, order=LAYERS):
    """What the optimizer keeps of each layer, if it gives the layers those of `order`."""
    return {
        f"{name}.{key}": digest(f"{key}.{other}@{position}")
        for name, other in zip(LAYERS, order, strict=True)
        for key in ("exp_avg", "exp_avg_sq")
    } | {f"{name}.step": digest(f"{position}") for name in LAYERS}


def weights(position, *, of="model"):
    return {name: digest(f"{of}.{name}@{position}") for name in LAYERS}


def options(order=LAYERS):
    return {
        name: digest("decay" if other == "a.weight" else "none") for name, other in zip(LAYERS, order, strict=True)
    }


def content(rank, position):
    """A checkpoint, with the moments under numbers."""
    saved = {f"model.{name}": value for name, value in weights(position).items()}
    numbers = {name: number for number, name in enumerate(LAYERS)}
    for name, value in moments(position).items():
        layer, _, key = name.rpartition(".")
        saved[f"optimizer.state.{numbers[layer]}.{key}"] = value
    return saved


def live(run, n, position, **other):
    """The tensors in step `n` of the life just told, by component."""
    usual = {"model": weights(position), "optimizer": moments(position), "options": options()}
    for rank in run.alive:
        told = usual | {component: tell(rank) for component, tell in other.items()}
        run.say("tensors", f"rank-{rank}-{run.lives}", n=n, tensors=told)


def reference(**tensors):
    def control():
        run = Writer(content=content, names=ALL).launch().live(ends=True)
        for position in (0, 20, 40):
            told = {part: lambda _, t=tell, p=position: t(p) for part, tell in tensors.items()}
            live(run, position + 1, position, **told)
        return run.exit(0).end().history()

    return Reference.of([control(), control()])


def resumed(off, *, saved=content, came=None, **tensors):
    """A kill, and a resume from step 20 after which the components of `off` are wrong, with these tensors."""
    run = Writer(content=saved, names=ALL).launch().live(until=25).fault().died()
    run.content = content
    run.launch().live(base=20, off=off, ends=True)
    live(run, 1, 20, **tensors)
    run.load("step-20.pt", content=came or (lambda rank: saved(rank, 20)))
    return run.exit(0).end().case(reference())


def findings(case):
    return {(one.component, one.rank): one for one in diagnose(case).findings}


def codes(case):
    found = [
        check()(case) for check in (checks.state_restored, checks.matches_reference, checks.checkpoints_faithful)
    ]
    return {code for verdict in found for code in verdict.codes}


BY_POSITION = ("b.weight", "a.weight", "c.weight")


def test_moments_that_were_loaded_by_position():
    case = resumed({"optimizer": "wrong"}, optimizer=lambda rank: moments(20, BY_POSITION))
    assert codes(case) == {"optimizer-not-restored"}
    one = findings(case)["optimizer", 0]
    assert sorted(one.given) == [("a.weight", "b.weight"), ("b.weight", "a.weight")]
    assert one.to_json()["given"] == [list(pair) for pair in one.given]
    verdict = checks.state_restored()(case)
    assert "the state of a.weight is that of b.weight" in verdict.sentence and "model, " in verdict.sentence
    assert "position" in verdict.evidence["advice"]["optimizer-not-restored"]
    assert checks.resumed_from_last_valid()(case).outcome is Outcome.PASS


def test_options_that_came_along_are_no_second_cause():
    wrong = {"optimizer": "wrong", "options": "wrong"}
    found = {"optimizer": lambda rank: moments(20, BY_POSITION), "options": lambda rank: options(BY_POSITION)}
    assert codes(resumed(wrong, **found)) == {"optimizer-not-restored"}
    # Those of a parameter whose moments are its own did not come along.
    found["options"] = lambda rank: options(("c.weight", "b.weight", "a.weight"))
    assert codes(resumed(wrong, **found)) == {"optimizer-not-restored", "options-not-restored"}


def test_moments_that_are_missing_are_named():
    def without(rank):
        return {name: value for name, value in moments(20).items() if not name.startswith("a.")}

    one = findings(resumed({"optimizer": "wrong"}, optimizer=without))["optimizer", 0]
    assert one.code == "optimizer-not-restored" and one.tensors == ()
    assert one.missing == ("a.weight.exp_avg", "a.weight.exp_avg_sq", "a.weight.step")
    assert "3 tensors are missing, the first a.weight.exp_avg" in str(one)


def test_moments_of_nobody_are_given_by_nobody():
    case = resumed({"optimizer": "wrong"}, optimizer=lambda rank: moments(99))
    assert findings(case)["optimizer", 0].given == () and "advice" not in checks.state_restored()(case).evidence
    # Equal for all layers: whose they are cannot be said.
    case = resumed({"optimizer": "wrong"}, optimizer=lambda rank: dict.fromkeys(moments(20), digest("zero")))
    assert findings(case)["optimizer", 0].given == ()


# A save that holds what the run did not.


def averaged(rank, position):
    """The average in the place of the weights."""
    return content(rank, position) | {f"model.{k}": v for k, v in weights(position, of="ema").items()}


def test_a_save_that_held_another_model_than_the_run():
    case = resumed({"model": "wrong"}, saved=averaged, model=lambda rank: weights(20, of="ema"))
    assert codes(case) == {"checkpoint-unfaithful"}
    assert checks.resumed_from_last_valid()(case).codes == ("checkpoint-unfaithful",)
    assert "the save of step 20 held another model than the run did" in checks.state_restored()(case).sentence


def test_moments_from_before_the_update():
    def early(rank, position):
        late = {name: value for name, value in content(rank, position).items() if "optimizer" not in name}
        return late | {k: v for k, v in content(rank, position - 1).items() if "optimizer" in k}

    case = resumed({"optimizer": 19}, saved=early, optimizer=lambda rank: moments(19))
    assert {one.code for one in diagnose(case).findings} == {"checkpoint-unfaithful"}


def test_what_was_not_saved_or_not_loaded_is_no_unfaithful_save():
    fresh = {"model": lambda rank: weights(0, of="fresh")}
    assert codes(resumed({"model": "wrong"}, **fresh)) == {"model-not-restored"}

    def weightless(rank, position):
        return {key: value for key, value in content(rank, position).items() if not key.startswith("model.")}

    found = findings(resumed({"model": "wrong"}, saved=weightless, **fresh))
    assert {one.code for one in found.values()} == {"model-not-restored"}


def test_a_load_that_returned_what_nobody_saved():
    """No fault touched the files: an asynchronous save wrote what later steps had made of the tensors."""

    def later(rank):
        return content(rank, 20) | {f"model.{k}": v for k, v in weights(22.5).items()}

    case = resumed({"model": "wrong"}, came=later, model=lambda rank: weights(22.5))
    assert codes(case) == {"checkpoint-unfaithful"}


def test_a_save_says_what_a_resume_from_it_loses():
    run = Writer(content=content, names=ALL).launch().live(until=25).fault().died()
    run.content = lambda rank, at: averaged(rank, at) if at == 40 else content(rank, at)
    run.launch().live(base=20, ends=True).load("step-20.pt", content=lambda rank: content(rank, 20))
    live(run, 1, 20)
    live(run, 21, 40)
    verdict = checks.checkpoints_faithful()(run.exit(0).end().case(reference()))
    assert verdict.codes == ("checkpoint-unfaithful",)
    assert verdict.evidence["unlike"][0]["position"] == 40
    assert verdict.evidence["unlike"][0]["loses"] == ("model",)
    assert "a resume from it loses the model of step 40" in verdict.sentence


@pytest.mark.parametrize("last", [False, True], ids=["known", "not known"])
def test_moments_that_change_places_in_the_file_are_no_unfaithful_save(last):
    """The groups are built in another order after the resume, and everything is loaded by name. What the run held at
    its last save nobody saw."""

    def reordered(rank, position):
        def other(key):
            for number, place in (("0", "2"), ("1", "0"), ("2", "1")):
                if key.startswith(f"optimizer.state.{number}."):
                    return key.replace(f"state.{number}", f"state.{place}")
            return key

        return {other(key): value for key, value in content(rank, position).items()}

    run = Writer(content=content, names=ALL).launch().live(until=25).fault().died()
    run.content = reordered
    run.launch().live(base=20, ends=True).load("step-20.pt", content=lambda rank: content(rank, 20))
    live(run, 1, 20)
    if not last:
        live(run, 21, 40)
    assert checks.checkpoints_faithful()(run.exit(0).end().case(reference())).outcome is Outcome.PASS


def test_layers_that_change_places_in_the_file_are_an_unfaithful_save():
    """Their keys are their names."""

    def swapped(rank, position):
        own = content(rank, position)
        return own | {"model.a.weight": own["model.b.weight"], "model.b.weight": own["model.a.weight"]}

    run = Writer(content=content, names=ALL).launch().live(until=25).fault().died()
    run.content = swapped
    run.launch().live(base=20, ends=True).load("step-20.pt", content=lambda rank: content(rank, 20))
    live(run, 1, 20)
    verdict = checks.checkpoints_faithful()(run.exit(0).end().case(reference()))
    assert verdict.codes == ("checkpoint-unfaithful",)


# Another rank's.


def own_average(name, rank, position):
    """Each rank has an average of its own, as where it holds the statistics of the rank's own batches."""
    return f"{name}.{rank}@{position}" if name in ("ema", "rng.torch", "batch") else f"{name}@{position}"


def test_the_average_of_another_rank_was_loaded():
    run = Writer(tell=own_average).launch().live(until=25).fault().died()
    patch = {(1, 21, "ema"): "ema.0@20"} | {(1, step, "ema"): f"mixed@{step}" for step in range(22, 61)}
    case = run.launch().live(base=20, ends=True, patch=patch).exit(0).end().case()
    verdict = checks.state_restored()(case)
    assert verdict.codes == ("ema-not-restored",)
    assert "EMA is that of rank 0 of step 20" in verdict.sentence
    advice = verdict.evidence["advice"]["ema-not-restored"]
    assert "rank 0" in advice and advice != REMEDIES["ema-not-restored"]
    # What is shown is that, and not the advice of the code.
    result = of_verdicts("test_resume", [verdict])
    assert list(remedies(result.codes, result.advice)) == [("ema-not-restored", advice)]
    assert result.to_json()["advice"] == {"ema-not-restored": advice}


def test_tensors_of_another_rank_among_ones_own():
    """The statistics are rank 0's, while the averaged weights are this rank's own, and those are apart, too."""

    def parts(rank, statistics=None):
        return {
            "a.weight": digest(f"own {rank}"),
            "mean": digest(f"mean {rank if statistics is None else statistics}"),
        }

    def control():
        run = Writer(tell=own_average).launch().live(ends=True).tensors(21, "ema", parts)
        return run.exit(0).end().history()

    run = Writer(tell=own_average).launch().live(until=25).fault().died()
    patch = {(1, step, "ema"): f"mixed@{step}" for step in range(21, 61)}
    run.launch().live(base=20, ends=True, patch=patch).tensors(1, "ema", lambda rank: parts(rank, 0))
    case = run.exit(0).end().case(Reference.of([control(), control()]))
    one = findings(case)["ema", 1]
    assert (one.whose, one.found, one.tensors) == (0, (20,), ("mean",))
    assert "rank 0" in checks.state_restored()(case).evidence["advice"]["ema-not-restored"]


def test_without_another_rank_the_code_advises():
    case = resumed({"ema": 0})
    assert "advice" not in checks.state_restored()(case).evidence
    assert list(remedies(("ema-not-restored",), {})) == [("ema-not-restored", REMEDIES["ema-not-restored"])]


def with_average(position, *, average=None, frozen=()):
    """A model that holds its average as a module: a copy of all layers, which follows them."""
    held = {f"ema.{name}": value for name, value in weights(position, of="average" if position else "model").items()}
    held.update(average or {})
    held.update({f"ema.{name}": digest(f"frozen {name}") for name in frozen})
    return {**weights(position), **held}


ANEW = {f"ema.{name}": value for name, value in weights(20).items()}


def lost_in_the_model(own, **frozen):
    run = Writer(content=content, names=ALL).launch().live(until=25).fault().died()
    run.launch().live(base=20, off={"model": "wrong"}, drift=False, ends=True)
    live(run, 1, 20, model=lambda rank: own)
    run.load("step-20.pt", content=lambda rank: content(rank, 20))
    run.exit(0).end()
    return run.case(reference(model=lambda position: with_average(position, **frozen)))


def test_an_average_that_is_a_module_of_the_model():
    case = lost_in_the_model(with_average(20, average=ANEW))
    assert "ema-not-restored" in codes(case) and "model-not-restored" not in codes(case)
    one = findings(case)["model", 0]
    assert one.code == "ema-not-restored" and set(one.tensors) == set(ANEW) and "average in the model" in str(one)
    verdict = checks.resumed_from_last_valid()(case)
    assert verdict.codes == ("ema-not-restored",) and "resumed from step 20" in verdict.sentence


def test_a_layer_that_was_lost_too_is_the_models():
    case = lost_in_the_model(with_average(20, average={**ANEW, "a.weight": digest("lost")}))
    assert {findings(case)["model", 0].code} == {"model-not-restored"}


def test_a_part_of_the_model_that_nothing_moves_is_no_average():
    """Frozen: it should never have changed."""
    own = with_average(20, average={"ema.a.weight": digest("another seed")})
    assert findings(lost_in_the_model(own, frozen=("a.weight",)))["model", 0].code == "model-not-restored"


def test_a_layer_that_an_optimizer_has_is_no_average():
    """Though it began as another one did: two equal layers."""

    def twins(position):
        return {**weights(position), "b.weight": weights(0)["a.weight"]} if not position else weights(position)

    run = Writer(content=content, names=ALL).launch().live(until=25).fault().died()
    run.launch().live(base=20, off={"model": "wrong"}, ends=True)
    live(run, 1, 20, model=lambda rank: {**weights(20), "b.weight": digest("lost")})
    case = run.exit(0).end().case(reference(model=twins))
    assert findings(case)["model", 0].code == "model-not-restored"
