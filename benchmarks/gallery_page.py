"""`docs/reference/gallery.md`: what came of the exam, for people. Made by `gallery.py` and never by hand."""

from __future__ import annotations

from typing import Any

from tinymodels.gallery.catalogue import REPOSITORIES


def page(found: dict[str, Any]) -> str:
    """`docs/reference/gallery.md`."""
    total, caught, named = found["total"], found["caught"], found["named"]
    clean, loaded = found["clean_runs"], found["loaded_runs"]
    alone = [alarm for alarm in found["alarms"] if not alarm.get("load")]
    under = [alarm for alarm in found["alarms"] if alarm.get("load")]
    lines = [
        "# The gallery",
        "",
        "Made by `make gallery`; do not edit. This page lists trainers that are broken on purpose, and chaoskit's",
        "codes for each. Each changes one part of the good trainer ([tinymodels/gallery/](../../tinymodels/gallery/)),",
        "modelled on a reported bug.",
        "",
        f"**{caught} of {total} caught ({caught / total:.0%}), {named} named ({named / total:.0%}),",
        f"{len(found['alarms'])} false alarms in {clean + loaded} runs of good trainers**: {len(alone)} in {clean}",
        f"runs without load, {len(under)} in {loaded} beside processes that keep every core busy. These are runs of",
        "the good trainer, with the same arguments or the `Good args` of the broken one, and of trainers that look",
        "broken and are right ([tinymodels/gallery/sound/](../../tinymodels/gallery/sound/)).",
        "",
        "*Caught*: each experiment in the row failed. *Named*: each failed with the expected codes, and with no others",
        "except those that the trainer's docstring allows. ★ marks the most common and most damaging bugs.",
    ]
    for alarm in found["alarms"]:
        args, codes = " ".join(alarm["args"]) or "no arguments", " ".join(alarm["codes"])
        args += "` under load `" if alarm.get("load") else ""
        said = " ".join(alarm["sentences"][:1])
        lines += [
            "",
            f"False alarm: `{alarm['experiment']}` with `{args}`: {alarm['verdict']} (`{codes}`): {said}.",
        ]
    families: dict[str, list[dict[str, Any]]] = {}
    for row in found["mutants"]:
        families.setdefault(row["family"], []).append(row)
    for family, rows in families.items():
        lines += [
            "",
            f"## {family[0].upper()}{family[1:]}",
            "",
            "| trainer | bug | detected by | evidence |",
            "|---|---|---|---|",
        ]
        lines += [_line(row) for row in rows]
    short = sorted({report.partition("#")[0] for row in found["mutants"] for report in row["evidence"]})
    names = "; ".join(f"{one} = {REPOSITORIES[one]}" for one in short if one in REPOSITORIES)
    return "\n".join(
        [*lines, "", f"Evidence: o open, c closed, m merged, p not merged, as last seen. {names}.", ""]
    )


def _line(row: dict[str, Any]) -> str:
    mark = "" if row["named"] else " **(wrongly named)**" if row["caught"] else " **(missed)**"
    seen = [f"`{name}`: {_answer(answer)}" for name, answer in row["answers"].items()]
    reasons = [f"`{name}` cannot show it: {why}" for name, why in row["equivalent"].items()]
    if row.get("missed"):
        reasons.append(f"why: {row['missed']}")
    cells = [
        f"{'★ ' if row['star'] else ''}`{row['slug']}`{mark}",
        row["title"],
        "<br>".join([*seen, *reasons]),
        ", ".join(row["evidence"]),
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _answer(answer: dict[str, Any]) -> str:
    return " ".join(f"`{code}`" for code in answer["codes"]) or answer["verdict"]
