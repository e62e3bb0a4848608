"""The environment `local`: ranks are processes of this machine."""
