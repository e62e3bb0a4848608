"""A page needs nothing but itself, and nothing that a job or a name said can run in it."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest
from jinja2 import DictLoader, UndefinedError

from chaoskit.errors import UsageError
from chaoskit.report.html import page

HOSTILE = "</title></svg><script>alert(1)</script>\"'&\x00\u202e"

EVERYWHERE = """{% extends "base.html.j2" %}{% import "macros.html.j2" as show %}
{% block title %}{{ fact }}{% endblock %}
{% block main %}<p title="{{ fact }}">{{ fact }}</p>
{{ show.codes([fact], {fact: fact}) }}{{ show.verdict("fail", fact) }}
{% call show.scroll(fact) %}<svg role="img">
<title>{{ fact }}</title><desc>{{ fact }}</desc><text>{{ fact }}</text></svg>{% endcall %}
{% endblock %}"""


@pytest.fixture
def made(monkeypatch):
    """Renders a template given as text, in the environment of all pages."""
    kept = page.environment()

    def make(text, **facts):
        sources = {file.name: file.read_text() for file in page.TEMPLATES.glob("*.j2")}
        with monkeypatch.context() as patch:
            patch.setattr(kept, "loader", DictLoader({**sources, "test": text}))
            patch.setattr(kept, "cache", None)
            return page.render("test", **facts)

    return make


def test_no_fact_becomes_markup_anywhere(made):
    text = made(EVERYWHERE, fact=HOSTILE)
    assert text.count("<script>") == 1 and "alert(1)</script>" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 10


def test_the_policy_lets_our_script_run_and_no_other():
    text = page.render("base.html.j2")
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1]
    assert policy.replace("&#39;", "'").split("; ") == [
        "default-src 'none'", "style-src 'unsafe-inline'", "img-src data:", f"script-src 'sha256-{digest}'"
    ]  # fmt: skip


def test_nothing_is_fetched_from_anywhere():
    text = page.render("base.html.j2")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<link|src=", text.replace("default-src", ""))


def test_a_fact_that_is_missing_is_an_error(made):
    with pytest.raises(UndefinedError, match="absent"):
        made("{{ absent }}")


def test_numbers_as_people_read_them(made):
    assert made(
        "{{ 1.23|seconds }} {{ none|seconds }} {{ 5000|number }} {{ 1.23456|number }} {{ none|number }}"
    ) == ("1.2 s – 5000 1.235 –")


def test_a_page_is_written_whole_with_its_directory(tmp_path):
    target = tmp_path / "new" / "page.html"
    page.write("é \udcff", target)
    page.write("é \udcff", target)
    assert target.read_bytes() == "é \\udcff".encode()
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("name", ["", "file/page.html"])
def test_where_no_page_can_be_written_the_path_is_named(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=f"--chaos-report: cannot write '{tmp_path}.*name "):
        page.write("text", tmp_path / name, option="--chaos-report")
