"""The API of a Kubernetes cluster: connection, guards and the objects of a run. No environment runs jobs there yet."""
