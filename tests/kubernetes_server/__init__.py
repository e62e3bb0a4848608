"""A Kubernetes API server of our own, for tests on machines without a cluster.

It speaks HTTP as a real server does, in the sentences and with the status codes of a real one, so that tests through
the official client hold on both. `fixtures.py` gives it to tests:
a test that asks for `cluster` alone knows nothing of the server.

What is not here: controllers, a scheduler, a kubelet, server-side apply and the expressions (CEL) of CRDs and policies.
"""
