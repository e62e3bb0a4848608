"""Which device a rank takes, and over what it talks."""

import pytest

from tinymodels.elasticity.world import World

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [(1, ("cuda:0", "gloo")), (2, ("cuda:1", "cpu:gloo,cuda:nccl")), (4, ("cuda:1", "cpu:gloo,cuda:nccl"))],
)
def test_ranks_share_devices_over_gloo_where_there_are_fewer(monkeypatch, devices, expected):
    joined = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: joined.append(str(device)))
    monkeypatch.setattr(World, "init_group", staticmethod(lambda backend, limit: joined.append(backend)))
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert str(World.join("cuda").device) == joined[0]
    assert tuple(joined) == expected
