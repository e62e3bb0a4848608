"""What tests share: one store, so that a reference is made once for all of them."""

import pytest

from chaoskit.store import Store


@pytest.fixture(scope="session")
def shared_store(tmp_path_factory, worker_id):
    base = tmp_path_factory.getbasetemp()
    return Store((base if worker_id == "master" else base.parent) / "chaos")
