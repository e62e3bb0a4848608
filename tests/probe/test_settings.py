"""What a rank says that it computes with."""

from types import SimpleNamespace

from chaoskit.probe.settings import settings


def fake(*, initialized):
    """A torch for CUDA, whose devices must not be touched where the job does not use them."""

    def name():
        assert initialized, "asking for the name begins to use the device"
        return "a device"

    cuda = SimpleNamespace(
        is_initialized=lambda: initialized, is_available=lambda: True, get_device_name=name,
        nccl=SimpleNamespace(version=lambda: (2, 1)),
    )  # fmt: skip
    backends = SimpleNamespace(
        cudnn=SimpleNamespace(version=lambda: 9, benchmark=False, deterministic=True, allow_tf32=True),
        cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX2"),
    )
    return SimpleNamespace(
        __version__="2", version=SimpleNamespace(cuda="13.0"), cuda=cuda, backends=backends,
        get_num_threads=lambda: 1, are_deterministic_algorithms_enabled=lambda: True,
        get_float32_matmul_precision=lambda: "highest",
    )  # fmt: skip


def test_devices_are_told_of_a_job_that_uses_them_and_left_alone_in_another():
    used, unused = settings(fake(initialized=True)), settings(fake(initialized=False))
    assert {"device", "cuda", "nccl", "cudnn", "cudnn tf32"} & unused.keys() == set()
    assert (used["device"], used["nccl"], used["cudnn tf32"]) == ("a device", "2.1", "True")
