"""The job template of a team: what can be run, what chaoskit adds to it, and how that is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from chaoskit.environments.kubernetes.filled_template import difference, filled
from chaoskit.environments.kubernetes.job_template import JobTemplate, digest, must_suit, read_template
from chaoskit.environments.kubernetes.objects import owned
from chaoskit.environments.kubernetes.selectors import RunIdentity
from chaoskit.errors import UsageError
from chaoskit.job import Job
from chaoskit.nodes import ClusterPlace
from tests.environments.kubernetes.a_job import (
    IMAGE,
    OUT,
    WORDS,
    a_job,
    a_job_set,
    a_pytorch_job,
    a_train_job,
    added,
    with_scratch,
)

POD = "spec.template.spec"
FIRST = f"{POD}.containers.0"
PLACE = ClusterPlace(namespace="staging", claim="runs", path="/ckpt")
ADDED = added()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("kind", None, "no manifest of an object: it needs apiVersion and kind"),
        (
            "kind",
            "PyTorchJob",
            "has the kind batch/v1 PyTorchJob, which is not supported: chaoskit runs Job of batch/v1, JobSet of ",
        ),
        ("apiVersion", "batch/v1beta1", "has the kind batch/v1beta1 Job, which is not supported"),
        ("metadata", None, "has no mapping metadata"),
        ("spec", "x", "has no mapping spec"),
        ("spec.template", None, "has no mapping spec.template"),
        (POD, [1], "has no mapping spec.template.spec"),
        ("spec.template.metadata", [1], "has no mapping spec.template.metadata"),
        (f"{POD}.containers", None, "has no list spec.template.spec.containers"),
        (FIRST, "x", "has a container without name and image"),
        (f"{FIRST}.image", None, "has a container without name and image"),
        (f"{FIRST}.args", [1], "whose args is no list of texts: put each in quotes"),
        (f"{FIRST}.command", "torchrun", "whose command is no list of texts"),
        (f"{FIRST}.env", {"A": "1"}, "whose env is no list of names and values"),
        ("metadata.generateName", "train-", "has generateName: write metadata.name"),
        ("metadata.name", None, "has no metadata.name"),
        (
            "metadata.labels",
            {"chaoskit.dev/run": "r1"},
            "names that begin with chaoskit.dev/ are those of chaoskit",
        ),
        ("spec.template.metadata", {"annotations": {"chaoskit.dev/x": "1"}}, r"template\.metadata\.annotations"),
        ("spec.completionMode", None, "has no completionMode: Indexed"),
        ("spec.completionMode", "NonIndexed", "has no completionMode: Indexed"),
        ("spec.parallelism", 1, "must have the same number of completions and parallelism"),
        ("spec.completions", None, "must have the same number of completions and parallelism"),
        ("spec.suspend", True, "is suspended: leave suspend out"),
        (f"{POD}.restartPolicy", "OnFailure", "must have restartPolicy: Never"),
        (f"{FIRST}.args", ["train.py"], "names no {out}: write {out} where a container takes its checkpoint"),
        (f"{FIRST}.command", None, "has no command for the container 'trainer': write it"),
        (
            f"{FIRST}.args",
            ["--rdzv-endpoint=nightly-train-0.train:29400", "{out}"],
            r"so write {job}-0\.{service}",
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence_with_the_remedy(path, value, said):
    with pytest.raises(UsageError, match=said):
        JobTemplate(a_job(path, value))


def test_of_several_containers_the_one_that_names_out_trains():
    sidecar = {"name": "logs", "image": "fluent:1"}
    manifest = a_job()
    containers = manifest["spec"]["template"]["spec"]["containers"]
    containers.insert(0, sidecar)
    template = JobTemplate(manifest)
    assert (template.words, template.image, template.nodes) == (WORDS, IMAGE, 2)
    made = filled(template, ADDED, out=OUT)["spec"]["template"]["spec"]["containers"]
    assert made[0] == sidecar and made[1]["command"][0] == "python3"
    containers.append({"name": "eval", "image": IMAGE, "command": ["eval"], "args": ["{out}"]})
    with pytest.raises(
        UsageError, match=r"names \{out\} in the containers trainer and eval: write it in the one alone"
    ):
        JobTemplate(manifest)


def test_what_the_team_wrote_stays_and_only_what_a_run_needs_is_added():
    manifest = a_job()
    manifest["spec"]["podFailurePolicy"] = {"rules": []}
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "CKPT", "value": "{out}/last"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s"}}},
    ]  # fmt: skip
    template = JobTemplate(manifest)
    job = owned(filled(template, ADDED, out=OUT), RunIdentity("staging", "r1", "u1"), role="node")
    pod = job["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == [
        "python3", "-I", "-S", "/ckpt/store/code/chaoskit/environments/agents/agent.py", "tcp://10.0.0.1:5",
        "$(CHAOSKIT_POD)", "/ckpt/store/runs/r1/agents.token", "--", "torchrun",
    ]  # fmt: skip
    assert container["args"] == [
        "--nnodes=2", "--rdzv-endpoint=chaoskit-r1-0.chaoskit-r1:29400", "train.py", "--out", str(OUT)
    ]  # fmt: skip
    assert container["env"][:2] == [
        {"name": "CKPT", "value": f"{OUT}/last"}, {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s"}}},
    ]  # fmt: skip
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/ckpt/store", "/ckpt/store/runs/r1"]
    own = {"chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}
    assert pod["metadata"]["labels"] == own and job["metadata"]["labels"] == {"team": "vision", **own}
    # Whatever was added is in the difference, and nothing of the team was taken away but what was filled in.
    gone = [line[1:].strip() for line in difference(template, job).splitlines()[2:] if line.startswith("-")]
    filled_in = ["- --rdzv-endpoint={job}-0.{service}:29400", "- '{out}'", "value: '{out}/last'", "name: nightly-train"]
    assert sorted(gone) == sorted(filled_in)
    assert manifest == template.manifest and "{out}" in str(manifest)


def test_the_difference_that_is_kept_has_no_secrets():
    made = a_job(f"{FIRST}.env", [{"name": "HF_TOKEN", "value": "canary"}])
    shown = difference(JobTemplate(a_job()), made)
    assert "{secret:HF_TOKEN}" in shown and "canary" not in shown


def test_what_the_options_and_the_template_both_say():
    template = JobTemplate(a_job())
    job = Job.from_command(template.words, image=IMAGE, nnodes=2)
    must_suit(job, template)
    for change, said in (
        (
            {"image": "other:1"},
            "the job template has the image 'registry/trainer:7', not 'other:1': leave --image out",
        ),
        ({"nnodes": 4}, "the job template has 2 pods, and --nodes is 4: leave --nodes out"),
        ({"resume_args": ["--resume"]}, "--resume-args cannot be used with a job template"),
    ):
        with pytest.raises(UsageError, match=said):
            must_suit(replace(job, **change), template)


def test_the_pods_that_look_at_the_image_have_the_settings_of_the_template():
    manifest = a_job("spec.template.spec.nodeSelector", {"pool": "gpu"})
    manifest["spec"]["template"]["spec"] |= {"imagePullSecrets": [{"name": "registry"}]}
    place = JobTemplate(manifest).place(PLACE)
    assert (place.node_selector, place.pull_secret) == ({"pool": "gpu"}, "registry")
    with pytest.raises(UsageError, match="pull-secret belongs into the job template"):
        JobTemplate(manifest).place(replace(PLACE, pull_secret="x"))
    with pytest.raises(UsageError, match="is for namespace 'prod', and --namespace is 'staging'"):
        JobTemplate(a_job("metadata.namespace", "prod")).place(PLACE)


@pytest.mark.parametrize("kind", [a_job, a_job_set, a_pytorch_job, a_train_job])
def test_whether_the_cluster_makes_volume_claims_for_it(kind):
    assert not JobTemplate(kind()).makes_claims
    volume = with_scratch(a_job())["spec"]["template"]["spec"]["volumes"]
    manifest = kind()
    if kind is a_train_job:
        job = {"name": "node", "template": {"spec": {"template": {"spec": {"volumes": volume}}}}}
        patch = {"template": {"spec": {"replicatedJobs": [job]}}}
        manifest["spec"]["runtimePatches"] = [{"manager": "me", "trainingRuntimeSpec": patch}]
    else:
        JobTemplate(manifest).job.pods[-1].manifest["spec"]["volumes"] = volume
    assert JobTemplate(manifest).makes_claims
    job = owned(filled(JobTemplate(manifest), ADDED, out=OUT), RunIdentity("staging", "r1", "u1"), role="node")
    labels = {"team": "vision", "chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}
    assert str({"labels": labels}) in str(job), "a selector of the run selects the claims"


def test_a_claim_that_all_pods_of_a_job_set_share_has_the_labels_too():
    claim = {"metadata": {"name": "cache"}, "spec": {"accessModes": ["ReadWriteMany"]}}
    manifest = a_job_set("spec.volumeClaimPolicies", [{"templates": [claim]}])
    assert JobTemplate(manifest).makes_claims
    job = owned(filled(JobTemplate(manifest), ADDED, out=OUT), RunIdentity("staging", "r1", "u1"), role="node")
    ((found,),) = [policy["templates"] for policy in job["spec"]["volumeClaimPolicies"]]
    own = {"chaoskit.dev/role": "node", "chaoskit.dev/run": "r1", "chaoskit.dev/owner": "u1"}
    assert found == {**claim, "metadata": {"name": "cache", "labels": own}}


def test_another_manifest_is_another_job():
    assert digest(JobTemplate(a_job())) == digest(JobTemplate(a_job()))
    assert digest(JobTemplate(a_job())) != digest(JobTemplate(a_job("spec.backoffLimit", 3)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "job.yaml: it cannot be read: .*No such file"),
        ("a: [", "job.yaml: it cannot be read: while parsing"),
        ("", "it has 0 manifests: it must have one job"),
        ("just words", "the job template is no manifest of an object"),
        (yaml.safe_dump_all([a_job(), {"kind": "Service"}]), "it also has Service: chaoskit makes the job alone"),
        (yaml.safe_dump_all([a_job(), a_job()]), "it has 2 manifests: it must have one job"),
        (yaml.safe_dump(a_job("spec.parallelism", 1)), "job.yaml: the job template must have the same number"),
    ],
)
def test_a_file_that_has_no_job(tmp_path, text, said):
    file = tmp_path / "job.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_template(file)


def test_a_file_with_a_job(tmp_path):
    (tmp_path / "job.yaml").write_text("---\n" + yaml.safe_dump(a_job()))
    assert read_template(tmp_path / "job.yaml") == a_job()
