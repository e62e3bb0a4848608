"""Nodes with an agent: the first process of a container or a pod, through which the harness reaches what runs there."""
