"""Secrets in words, variables and manifests: what counts as one, what stands in its place, and the way back."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaoskit.protocol.secret_words import Redaction, fill, looks_secret, missing, redact_text, redact_words

HUGGING_FACE, AMAZON = "hf_" + "a1B2" * 8, "AKIA" + "Q7" * 8


@pytest.mark.parametrize(
    "name",
    [
        "token", "--hf-token", "--hf_token", "HF_TOKEN", "hfToken", "hftoken", "access-token", "model.hub.token",
        "api-key", "apiKey", "OPENAI_API_KEY", "WANDB_API_KEY", "wandb-key", "AWS_SECRET_ACCESS_KEY", "private_key",
        "password", "--db-password", "DB_PASS", "passphrase", "client_secret", "secret-key", "credentials",
    ],
)  # fmt: skip
def test_names_of_secrets(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer", "max-tokens", "num_tokens", "token-count", "tokens-per-batch", "pad-token", "eos_token",
        "pad_token_id", "key-dim", "sort-key", "password-file", "secretName", "use-auth-token", "num-pass", "compass",
        "PWD", "lr", "",
    ],
)  # fmt: skip
def test_names_that_only_look_alike(name):
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["t.py", "--hf-token", "x1", "--lr", "1"], ["t.py", "--hf-token", "{secret:HF_TOKEN}", "--lr", "1"]),
        (["--password=a,b c"], ["--password={secret:PASSWORD}"]),
        (["env", "HF_TOKEN=a;b", "python"], ["env", "HF_TOKEN={secret:HF_TOKEN}", "python"]),
        (["++wandb.api_key=x1"], ["++wandb.api_key={secret:WANDB_API_KEY}"]),
        (["--export=ALL,A_TOKEN=x1,B=2"], ["--export=ALL,A_TOKEN={secret:A_TOKEN},B=2"]),
        (["https://me:pw@host/x"], ["https://me:{secret:URL_PASSWORD}@host/x"]),
        (["http://h/?token=x1&x=1"], ["http://h/?token={secret:TOKEN}&x=1"]),
        (['{"password": "x1", "b": 1}'], ['{"password": "{secret:PASSWORD}", "b": 1}']),
        ([HUGGING_FACE, AMAZON], ["{secret:HF_TOKEN}", "{secret:AWS_ACCESS_KEY_ID}"]),
        (["bash", "-c", "wandb login " + "a" * 40], ["bash", "-c", "wandb login {secret:WANDB_API_KEY}"]),
        (
            ["bash", "-c", "A_TOKEN=x1 python t.py --password 'x y' && b > c"],
            ["bash", "-c", "A_TOKEN={secret:A_TOKEN} python t.py --password '{secret:PASSWORD}' && b > c"],
        ),
        (["--chaos-job=x '--password=a b' --x"], ["--chaos-job=x '--password={secret:PASSWORD}' --x"]),
        (["--resume-args=--hf-token x1"], ["--resume-args=--hf-token {secret:HF_TOKEN}"]),
        # The same value also where it has no name; another value gets another name.
        (["--token", "long-enough", "/x/long-enough"], ["--token", "{secret:TOKEN}", "/x/{secret:TOKEN}"]),
        (["--token", "x1", "--token", "x2"], ["--token", "{secret:TOKEN}", "--token", "{secret:TOKEN_2}"]),
    ],
)
def test_words_are_stored_without_secrets_and_filled_again(words, stored):
    assert redact_words(words) == stored
    assert redact_words(stored) == stored, "what is redacted already changes no more"
    redaction = Redaction()
    kept = redaction.words(words)
    assert fill(kept, redaction.values) == words


@pytest.mark.parametrize(
    "words",
    [
        ["torchrun", "--nproc-per-node", "2", "train.py", "--out", "{out}", "--max-tokens", "4096", "--key-dim=64"],
        ["--use-auth-token", "train.py"], ["--token=True"], ["--hf-token", "--next"], ["--eos-token", "</s>"],
        ["bash", "-c", "cd /x && python train.py --seed 1 | tee log"], ["s3://bucket@x/y", "--rdzv-endpoint=a:29400"],
        ["--revision", "a" * 40],
    ],
)  # fmt: skip
def test_everything_else_stays_as_it_is(words):
    assert redact_words(words) == words


def test_variables_and_manifests():
    assert Redaction().variables({"A_SECRET": "x", "PATH": "/bin", "URL": "s3://a:b@c"}) == {
        "A_SECRET": "{secret:A_SECRET}", "PATH": "/bin", "URL": "s3://a:{secret:URL_PASSWORD}@c",
    }  # fmt: skip
    told = {
        "env": [{"name": "A_TOKEN", "value": "x1"}, {"name": "B_TOKEN", "valueFrom": {"secretKeyRef": {"key": "k"}}}],
        "args": ["--password", "x2"], "count": 3,
    }  # fmt: skip
    stored = Redaction().tree(told)
    assert stored == {
        "env": [{"name": "A_TOKEN", "value": "{secret:A_TOKEN}"}, told["env"][1]],
        "args": ["--password", "{secret:PASSWORD}"], "count": 3,
    }  # fmt: skip
    assert missing(stored, {"A_TOKEN": "x1"}) == ["PASSWORD"]
    assert fill(stored, {"A_TOKEN": "x1", "PASSWORD": "x2"}) == told


def test_a_text_with_a_command_in_it():
    listed = "Command '['t.py', '--api-key', 'x1', '--lr', '1']' failed"
    assert redact_text(listed) == "Command '['t.py', '--api-key', '{secret:API_KEY}', '--lr', '1']' failed"
    assert redact_text("python t.py --api-key x1 left behind") == "python t.py --api-key {secret:API_KEY} left behind"


PIECES = st.sampled_from((
    "--hf-token", "--password=", "A_SECRET=", "token", "=", ":", " ", "'", '"', ",", "&", ";", "-", "{", "}", "secret:",
    "@", "://u:", "x1", "long-enough", f"/{HUGGING_FACE}", "--lr", "\n", "\\", "-c",
))  # fmt: skip


@given(st.lists(st.lists(PIECES, max_size=6).map("".join), max_size=6))
def test_any_words_come_back(words):
    assume("{secret:" not in "".join(words))
    redaction = Redaction()
    stored = redaction.words(words)
    assert fill(stored, redaction.values) == words
    assert HUGGING_FACE not in "".join(stored)
