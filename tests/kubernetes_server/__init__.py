"""A Kubernetes API server of our own, for tests on machines without a cluster.

It speaks HTTP as a real server does, in the sentences and with the status codes of a real one, so that tests through
the official client hold on both. `fixtures.py` gives it to tests:
a test that asks for `cluster` alone knows nothing of the server.

With the fixture `real_cluster`, a scheduler and a kubelet run the pods as containers of a Docker daemon.

What is not here: most controllers, server-side apply and the expressions (CEL) of CRDs and policies.
"""
