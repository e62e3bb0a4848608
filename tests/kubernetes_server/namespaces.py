"""What controllers put into every new namespace, and what a test that counts objects has to leave out."""

from __future__ import annotations

from tests.kubernetes_server.lifecycle import newly_made
from tests.kubernetes_server.resources import Catalogue
from tests.kubernetes_server.store import Store

ROOT_CERTIFICATE = "kube-root-ca.crt"
SERVICE_ACCOUNT = "default"


def furnish(namespace: str, store: Store, catalogue: Catalogue) -> None:
    """Give a new namespace its service account and its certificate."""
    for plural, name, more in (
        ("serviceaccounts", SERVICE_ACCOUNT, {}),
        ("configmaps", ROOT_CERTIFICATE, {"data": {"ca.crt": ""}}),
    ):
        resource = catalogue.named(plural)
        store.put(resource, newly_made(resource, namespace, {"metadata": {"name": name}} | more))
