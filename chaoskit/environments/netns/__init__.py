"""The environment `netns`: nodes are virtual hosts of this machine, made of namespaces."""
