"""`chaoskit nightly --publish s3://…`: real requests over HTTP, by s3fs to a server that speaks the API of S3."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from chaoskit.errors import ExitCode
from tests.cli.test_main import chaoskit, project  # noqa: F401
from tests.cli.test_nightly import Links, tonight  # noqa: F401
from tests.users import must_have

REGION = "us-east-1"
NEEDED = ("boto3", "flask", "flask_cors", "moto", "s3fs")


@pytest.fixture
def endpoint(request, monkeypatch, tmp_path):
    """The server, which has the bucket `pages`; s3fs and boto find it and its credentials in the environment. Skips
    where packages are missing, and fails with --chaos-require."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    must_have(request, f"{', '.join(missing)} cannot be imported: pip install '.[dev]'" if missing else None)
    import boto3
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1",
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"), "AWS_CONFIG_FILE": str(tmp_path / "none"),
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="pages")
        s3fs.S3FileSystem.clear_instance_cache()
        yield f"http://{host}:{port}"
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        for what, text in (("reset-auth", "inf"), ("reset", "")):  # the server's state is that of this process
            tell(f"http://{host}:{port}/moto-api/{what}", text)
        server.stop()


def tell(url, text):
    """Change the server."""
    body = {"data": text.encode(), "method": "POST", "headers": {"Content-Type": "text/plain"}}
    urllib.request.urlopen(urllib.request.Request(url, **body)).close()


def read(endpoint, name):
    """An object as a browser gets it, and its type."""
    import boto3

    url = boto3.client("s3").generate_presigned_url("get_object", Params={"Bucket": "pages", "Key": name})
    with urllib.request.urlopen(url) as answer:
        return answer.read().decode(), answer.headers.get_content_type()


def test_the_pages_of_two_nights_are_in_the_bucket(tonight, endpoint):  # noqa: F811
    code, out, err, first = tonight("--publish", "s3://pages/chaoskit")
    assert code == ExitCode.FAIL and "pages: s3://pages/chaoskit/index.html" in out and "Traceback" not in err
    *_, second = tonight("--publish", "s3://pages/chaoskit", "-k", "test_one")
    text, kind = read(endpoint, "chaoskit/index.html")
    links = Links(text).found
    assert kind == "text/html"
    assert links == ["history.html", f"nights/{second.id}/index.html", f"nights/{first.id}/index.html"]
    for link in links:
        assert "<!doctype html>" in read(endpoint, f"chaoskit/{link}")[0]


def refused(tonight, url):  # noqa: F811
    """What a night on which everything passed says where its pages cannot be published: one sentence."""
    code, out, err, suite = tonight("--publish", url, "-k", "test_one")
    assert code == ExitCode.INTERNAL and suite is not None and "1 experiment: 1" in out
    assert "Traceback" not in err
    (said,) = [line for line in re.split(r"(?:^|\n)chaoskit: ", err) if "could not be published" in line]
    return " ".join(said.split())


def test_credentials_that_the_server_does_not_know(tonight, endpoint):  # noqa: F811
    tell(f"{endpoint}/moto-api/reset-auth", "0")
    said = refused(tonight, "s3://pages/chaoskit")
    assert "The AWS Access Key Id you provided does not exist in our records" in said
    assert "check the credentials that this machine has for it" in said and "the verdicts stay valid" in said


def test_no_credentials_at_all(tonight, endpoint, monkeypatch):  # noqa: F811
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    said = refused(tonight, "s3://pages/chaoskit")
    assert "NoCredentialsError" in said and "check the credentials that this machine has for it" in said


def test_a_bucket_that_is_not_there_is_not_made(tonight, endpoint):  # noqa: F811
    import boto3

    said = refused(tonight, "s3://misspelt/chaoskit")
    assert "The specified bucket does not exist" in said and "make the bucket, or correct its name" in said
    assert [one["Name"] for one in boto3.client("s3").list_buckets()["Buckets"]] == ["pages"]


def test_a_server_that_is_away(tonight, endpoint, monkeypatch):  # noqa: F811
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "EndpointConnectionError" in refused(tonight, "s3://pages/chaoskit")


def test_without_s3fs_nothing_runs(tonight, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "s3fs", None)
    found = importlib.import_module("fsspec.registry")._registry  # what an earlier test had it import
    monkeypatch.delitem(found, "s3", raising=False)
    code, _, err, suite = tonight("--publish", "s3://pages/chaoskit")
    assert code == ExitCode.USAGE and suite is None and not Path(".chaoskit/runs").exists()
    assert "--publish s3://pages/chaoskit: files of s3:// cannot be written here" in err and "s3fs" in err
