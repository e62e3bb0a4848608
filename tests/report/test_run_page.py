"""The page of a run shows what happened, leaves out what did not, and runs nothing that anybody said."""

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chaoskit.engine.result import of_runs
from chaoskit.engine.run_store import Store
from chaoskit.engine.runner import stored as read
from chaoskit.protocol.events import Event
from chaoskit.report.html import run_page
from chaoskit.verdict import failed
from tests.history_writer import Writer, killed
from tests.report.browser.stored import HOSTILE, gone, long, stored, stories


class Elements(HTMLParser):
    """Every element of a page, its legend aside: its name, and its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(re.sub(r'<p class="legend".*?</p>', "", text, flags=re.S))

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def count(self, *classes):
        return sum({*classes} <= {*(attrs.get("class") or "").split()} for _, attrs in self.found)

    def ids(self):
        return {attrs["id"] for tag, attrs in self.found if tag in ("section", "header", "div") and "id" in attrs}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / ".chaoskit")


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """The stored runs of all stories, by name, as they are read back."""
    store = Store(tmp_path_factory.mktemp("stories") / ".chaoskit")
    return {name: read(getattr(run, "dir", run), store) for name, run in stories(store).items()}


def page(run, **options):
    return Elements(run_page.render(run, **options))


EVERY = {
    "verdict", "picture", "lanes", "clock", "alignment", "ledger", "checks", "last-words", "story", "again", "files",
}  # fmt: skip


def test_a_run_that_passed_shows_all_that_happened_and_no_more(told):
    found = page(told["passed"])
    assert found.ids() == EVERY
    assert (found.count("fault-window", "point"), found.count("resumed-arrow")) == (2, 1)  # in the lanes, too
    assert (found.count("line", "run"), found.count("line", "reference"), found.count("branch")) == (1, 1, 1)
    assert (found.count("checkpoint", "valid"), found.count("checkpoint", "resumed")) == (2, 1)
    assert found.count("phase") == 4 or found.count("phase") == 5
    for absent in ("wrong", "first-wrong", "nonfinite", "stall", "rollback", "refused", "trouble"):
        assert not found.count(absent), absent


def test_one_that_failed_marks_what_is_wrong(told):
    text = run_page.render(told["optimizer"])
    found = Elements(text)
    assert found.count("wrong") == 1 and found.count("first-wrong") == 1
    assert '<td class="n wrong"><span aria-hidden="true">✗</span> 0 <small>wrong</small></td>' in text
    assert "optimizer not restored" in text and "The optimizer&#39;s moments or step counts" in text


def test_several_faults_a_freeze_and_refused_checkpoints(told):
    found = page(told["fallback"])
    assert found.count("fault-window") == 6 and found.count("stall") >= 2
    assert found.count("checkpoint", "refused") == 2 and found.count("checkpoint", "resumed") == 1


def test_losses_that_are_no_numbers_are_marked(told):
    assert page(told["numbers"]).count("nonfinite") == 2


def test_a_hang_shows_the_stacks(told):
    text = run_page.render(told["hang"])
    assert Elements(text).ids() == {*EVERY, "stacks"}
    assert "line 41 in step" in text


def test_a_job_that_never_came_back(told):
    text = run_page.render(told["gone"])
    assert not Elements(text).count("phase") and not Elements(text).count("resumed-arrow")
    assert "incarnations 1, 2, 3 took no step" in text and "never" in text


def test_whatever_is_said_runs_nowhere(told):
    text = run_page.render(told["hostile"])
    found = Elements(text)
    assert [tag for tag, _ in found.found].count("script") == 1 and not any(tag == "img" for tag, _ in found.found)
    assert not any(name.startswith("on") for _, attrs in found.found for name in attrs)
    assert "49" not in text.partition("{{ 7 * 7 }}")[2][:20] and text.count("{{ 7 * 7 }}") > 5
    assert not re.search(r'(?:href|src|xlink:href)="\s*(?:javascript|data|https?):', text)


def test_a_hostile_verdict_and_evidence(store):
    run = stored(store, killed())
    verdict = failed(
        "state_restored", HOSTILE, "model-not-restored", **{"table": [], HOSTILE: [{HOSTILE: HOSTILE}]}
    )
    found = page(run, verdicts=[verdict])
    assert [tag for tag, _ in found.found].count("script") == 1 and not any(tag == "img" for tag, _ in found.found)


def test_nothing_is_asked_of_a_network(told):
    text = run_page.render(told["passed"])
    assert not re.search(r"https?://|url\((?!#)|@import|<link|<iframe|\bsrc=", text)


def test_files_are_linked_to_as_the_caller_says(told):
    run = told["passed"]
    found = page(run, links=lambda path: f"../{path.relative_to(run.dir.parent)}")
    links = [attrs["href"] for tag, attrs in found.found if tag == "a"]
    assert f"../{run.id}/events/harness.jsonl" in links and f"../{run.id}/logs/launch-0.log" in links
    links = [attrs["href"] for tag, attrs in page(run).found if tag == "a"]
    assert (run.dir / "run.json").as_uri() in links


def test_a_run_that_nobody_judged(store):
    run = stored(store, killed())
    (run.dir / "verdicts.json").unlink()
    text = run_page.render(run)
    assert "This run has no verdicts" in text and "No check was applied" in text


def test_a_run_whose_harness_died(store):
    text = run_page.render(stored(store, Writer().launch().live(until=25)))
    assert "The record is incomplete" in text and Elements(text).count("death") == 0


def test_a_run_without_a_reference(store):
    run = stored(store, killed())
    shutil.rmtree(run.dir / "reference")
    found = page(read(run.dir, store))
    assert not found.count("line", "reference") and found.count("line", "run") == 1 and found.count("trouble") == 1


def test_a_record_with_gaps(store):
    run = stored(store, killed())
    path = run.dir / "events" / "rank-0-2.jsonl"
    path.write_text(path.read_text().replace('"e": "step"', '"e": "step', 1))
    text = run_page.render(read(run.dir, store))
    assert "of the record are damaged or missing" in text


def test_a_job_that_never_stepped(store):
    text = run_page.render(stored(store, Writer().launch().exit(1).end("gave-up")))
    assert "No loss of this run is known" not in text, "that of the reference is"
    assert "The probe observed no optimizer step of this run" in text and not Elements(text).count("lane")


def test_another_number_of_ranks(store):
    run = Writer(ranks=4, samples=lambda rank, at: (f"s{at}.{rank}",)).launch().live(until=25).fault().died()
    run.launch().live(base=20, world=2, ends=True).exit(0).end()
    text = run_page.render(stored(store, run))
    assert "In incarnation 1 the job had a different number of ranks" in text
    assert Elements(text).count("lane") == 4


def test_a_rollback_in_the_processes(store):
    run = Writer().launch().live(until=30, strike={28: {}}).live(base=20, back=True, ends=True).exit(0).end()
    found = page(stored(store, run))
    assert found.count("rollback") == 2 and not found.count("death") and found.count("branch") == 1


def test_losses_that_are_no_scalars(store):
    run = Writer(tell_loss=lambda rank, step: "tensor:abc").launch().live(ends=True).exit(0).end()
    text = run_page.render(stored(store, run))
    assert "losses are not scalars" in text and not Elements(text).count("losses")


def test_long_evidence_is_cut(store):
    run = stored(store, killed())
    rows = [{"rank": rank, "why": "x" * 100} for rank in range(5000)]
    text = run_page.render(run, verdicts=[failed("state_restored", "wrong", "model-not-restored", rows=rows)])
    assert "4940 more rows" in text and len(text) < 200_000


def test_a_long_run_is_a_small_page(store):
    run = long(steps=2000, ranks=2)
    text = run_page.render(stored(store, run))
    assert len(text) < 300_000
    found = Elements(text)
    assert found.count("nonfinite") == 1 and found.count("resumed-arrow") == 1


def test_a_damaged_event_does_not_cost_the_page(store):
    run = killed()
    run.events.append(Event("stack", run.t + 1, "harness", {"rank": 1, "text": "\x00\ud800 odd"}))
    assert "odd" in run_page.render(stored(store, run))


def test_each_fault_has_a_link_of_its_own(told):
    text = run_page.render(told["fallback"])
    assert re.findall(r'<a id="(fault-\d)" href="#(fault-\d)">([^<]+)', text) == [
        ("fault-0", "fault-0", "pause rank 1"),
        ("fault-1", "fault-1", "kill rank 1 at step 46"),
        ("fault-2", "fault-2", "flip a bit of step 40"),
    ]


def test_the_runs_before_and_after_are_linked(told):
    before, after = run_page.Neighbour("test_a", "a.html"), run_page.Neighbour(HOSTILE, "b.html")
    text = run_page.render(told["passed"], home="../index.html", previous=before, next_one=after)
    assert '<a rel="prev" href="a.html">← test_a</a>' in text and '<a rel="next" href="b.html">' in text
    assert HOSTILE not in text
    alone = run_page.render(told["passed"])
    assert 'rel="prev"' not in alone and 'class="steps"' not in alone


def test_the_last_words_come_first_where_the_job_did_not_finish(store):
    log = "[default0]:step 24\n[default0]:Traceback (most recent call last):\n[default0]:ValueError: <b>bad</b>\n"
    text = run_page.render(stored(store, gone(), logs={f"launch-{n}.log": log for n in range(4)}))
    assert text.index('id="last-words"') < text.index('id="picture"')
    assert '<p class="reason">ValueError: &lt;b&gt;bad&lt;/b&gt;</p>' in text and "<b>bad" not in text
    text = run_page.render(stored(store, killed(), logs={"launch-0.log": log}))
    assert text.index('id="last-words"') > text.index('id="picture"')


def test_losses_are_decimals_and_raw_evidence_is_closed(told):
    exact = {
        "losses": {str(n): (0.1 * n).hex() for n in range(1, 60)},
        "first": [{"step": 4, "loss": (0.5).hex()}],
    }
    verdict = failed("matches_reference", f"the loss is {(0.5).hex()}", "loss-diverged", **exact)
    text = run_page.render(told["passed"], verdicts=[verdict])
    assert not re.search(r"0x1\.", text)
    assert "the loss is 0.5" in text and "<td>0.5</td>" in text
    assert '<details><summary>losses</summary><pre class="evidence"' in text


def test_commands_have_a_button_that_only_the_script_shows(told):
    text = run_page.render(told["passed"])
    buttons = re.findall(r"</pre><button([^>]*)>", text)
    assert len(buttons) == 4 and all("hidden" in each and 'class="copy"' in each for each in buttons)


def test_a_run_in_which_state_was_put_back_does_not_show_the_job(store):
    run = stored(store, killed())
    assert "does not show the job as it is" not in run_page.render(run)
    store.update(run.dir, put_back=["rng.torch"])
    assert "put back what the job had lost (rng.torch)" in run_page.render(run)


def test_what_is_accepted_is_said_with_its_reason(told):
    run = told["optimizer"]
    reasons = {"optimizer-not-restored": f"moments may differ {HOSTILE}"}
    result = replace(of_runs("test_x", [run]), accepted=("optimizer-not-restored",), reasons=reasons)
    text = run_page.render(run, result=replace(result, verdict="accepted"))
    assert "<title>accepted: " in text and "moments may differ &lt;script&gt;" in text
    assert re.search(r'<h1><span class="verdict accepted">', text)
    assert re.search(r'<h1><span class="verdict fail">', run_page.render(run, result=result))


def test_the_pace_of_the_ranks(store):
    """A straggler is named, and marked in the table; without own times there is no table."""
    run = Writer().launch().live(ends=True).exit(0).end()
    plain = stored(store, run)
    assert "throughput" not in page(read(getattr(plain, "dir", plain), store)).ids()
    ranks = {event.source: event["rank"] for event in run.events if event.kind == "process.start"}
    for number, event in enumerate(run.events):
        if event.kind == "step":
            own = 0.2 if ranks[event.source] == 1 else 0.1
            run.events[number] = Event(event.kind, event.t, event.source, {**event.data, "own": own})
    slow = stored(store, run)
    text = run_page.render(read(getattr(slow, "dir", slow), store))
    found = Elements(text)
    assert "throughput" in found.ids()
    assert "Rank 1 ran 50 % slower than its peers." in text and "outside of faults" in text
    assert found.count("wrong") == 1
