"""`sentence_of`: says in one sentence what one code of a verdict means in this run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from chaoskit.analysis.finding import WORDS, Finding, show_ranks
from chaoskit.analysis.record.steps import readable
from chaoskit.verdict import Verdict

#: How the sentence on a component begins.
SUBJECTS = {
    "model": "The model is not restored",
    "buffers": "The buffers are not restored",
    "optimizer": "The optimizer is not restored",
    "options": "The options of the parameter groups are not restored",
    "lr": "The learning rate is wrong",
    "scaler": "The gradient scaler is not restored",
    "ema": "The averaged model is not restored",
    "rng": "The random state is not restored",
    "batch": "The position in the data is not restored",
}
#: What a job does with its data, by the code.
READS = {
    "data-replayed": "the job reads {} again",
    "data-skipped": "the job leaves {} out",
    "data-reordered": "the job reads the data in another order",
    "data-differs": "the job reads other data than the uninterrupted run",
}


def sentence_of(code: str, verdict: Verdict, verdicts: Sequence[Verdict]) -> str:
    """The sentence of `code`, which `verdict` carries; `verdicts` are all that decide the run."""
    found = [
        one
        for each in (verdict, *verdicts)
        for one in each.evidence.get("findings", ())
        if code in (one["code"], *one.get("more", ()))
    ]
    if code.startswith("data-"):
        return _of_data(code, found, verdict, verdicts)
    if found and code == "checkpoint-unfaithful":
        return _of_saves(found)
    if found:
        return _of_state(found, verdicts)
    return capital(readable(verdict.sentence))


def capital(text: str) -> str:
    """The text as a sentence: a capital first, a full stop last."""
    text = text.strip()
    ended = "\n" in text or text.endswith((".", "!", "?", "…"))  # several lines are output of the job
    name = re.match(r"[a-z0-9]*[^\sa-z0-9,;:'-]", text)  # 'nnodes=2', 'train.py', 'load_state_dict'
    first = text[:1] if name else text[:1].upper()
    return f"{first}{text[1:]}{'' if ended else '.'}"


def position_of(code: str, verdicts: Sequence[Verdict]) -> int | None:
    """The step of the reference that the component of a code stands at after a resume."""
    for one in (one for each in verdicts for one in each.evidence.get("findings", ())):
        if code in (one["code"], *one.get("more", ())) and one["found"]:
            return int(one["found"][0])
    return None


def _of_saves(found: Sequence[Mapping[str, Any]]) -> str:
    """'The save of step 30 holds another model and optimizer than the run held, and the job resumed from it.'"""
    first = _finding(found[0])
    families = dict.fromkeys(_finding(one).family for one in found)
    *some, last = (WORDS.get(name, name) for name in families)
    what = f"{', '.join(some)} and {last}" if some else last
    return f"The save of step {first.expected} holds another {what} than the run held, and the job resumed from it."


def _of_state(found: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict]) -> str:
    """'The optimizer is not restored: resumed from step 10, that of every rank is that of step 0.'"""
    first = _finding(found[0])
    same = [one for one in map(_finding, found) if one.component == first.component and one.found == first.found]
    ranks = sorted({one.rank for one in same if one.incarnation == first.incarnation})
    whom = _whom(ranks, first.incarnation, verdicts)
    if first.redrawn:
        what = f"{whom} draws other random numbers for the same rows of the data"
        return f"{SUBJECTS['rng']}: resumed from step {first.expected}, {what}."
    subject = SUBJECTS.get(first.family, f"The {first.family} is not restored")
    stream = first.component.partition(".")[2]
    harmless = ", and no loss and no batch depended on it" if first.harmless is not None else ""
    when = f"resumed from step {first.expected}" if first.found is not None else "after the resume"
    if stream:
        return f"{subject}: {when}, stream {stream} of {whom} {first.place}{harmless}."
    if first.place.startswith("is "):
        has = "has" if "rank" in whom.split()[0] or whom == "every rank" else "have"
        return f"{subject}: {when}, {whom} {has} {first.place.removeprefix('is ')}."
    return f"{subject}: {when}, that of {whom} {first.place}."


def _of_data(
    code: str, found: Sequence[Mapping[str, Any]], verdict: Verdict, verdicts: Sequence[Verdict]
) -> str:
    """'The position in the data is not restored: resumed from step 30, the job reads 150 rows again (first ...).'"""
    ledger = next((each.evidence["ledger"] for each in verdicts if each.evidence.get("ledger")), None)
    batch = next((one for one in found if one["component"] == "batch"), None)
    if ledger is None and batch is None:
        return capital(readable(verdict.sentence))
    key = "replayed" if code == "data-replayed" else "skipped"
    count, unit = (ledger[key], ledger["unit"]) if ledger is not None else (0, "batch")
    many = f"{count} {unit if count == 1 else 'batches' if unit == 'batch' else unit + 's'}" if count else "data"
    told = READS.get(code, "the data differ").format(many)
    if batch is not None and batch["found"] and batch["found"][0] != batch["expected"]:
        told = f"the job reads the data of step {batch['found'][0] + 1} instead of {batch['step']}"
        told += f" ({READS[code].format(many).removeprefix('the job ')})" if count else ""
    elif ledger is not None and (place := ledger.get(f"first_{key}")):
        told += f", first at step {place['step']}"
    orders = ledger.get("orders", ()) if ledger is not None else ()
    told += "".join(f", and epoch {own} has the order of epoch {other}" for own, other in orders[:1])
    resumed = f"resumed from step {batch['expected']}, " if batch is not None else ""
    return f"{SUBJECTS['batch']}: {resumed}{told}."


def _finding(data: Mapping[str, Any]) -> Finding:
    """The finding that evidence holds."""
    lists = {
        name: tuple(data[name]) if data.get(name) is not None else None
        for name in ("found", "more", "tensors", "missing")
        if name in data
    }
    given = {"given": tuple((str(a), str(b)) for a, b in data["given"])} if "given" in data else {}
    known = {name: value for name, value in data.items() if name in Finding.__dataclass_fields__}
    return Finding(**{**known, **lists, **given})


def _whom(ranks: Sequence[int], incarnation: int, verdicts: Sequence[Verdict]) -> str:
    """'every rank' where it is every one of several; else the ranks by number."""
    rows = next((each.evidence["table"] for each in verdicts if each.evidence.get("table")), ())
    every = {row["rank"] for row in rows if row["incarnation"] == incarnation}
    return "every rank" if len(every) > 1 and every <= set(ranks) else show_ranks(ranks)
