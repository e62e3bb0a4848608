"""The variables by which a job finds a metadata service that is not at the address at which clouds have theirs.

AWS: https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html, an URL. Google:
https://googleapis.dev/python/google-auth/latest/reference/google.auth.environment_vars.html, a host and a port. Azure
documents none for Scheduled Events.
"""

from __future__ import annotations

from chaoskit.errors import UsageError

_VARIABLES = {"aws": ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://{}"), "gcp": ("GCE_METADATA_HOST", "{}")}


def why_no_variable(cloud: str) -> str | None:
    """None if a job can be told of the service of that cloud by a variable, else the reason and the remedy."""
    if cloud in _VARIABLES:
        return None
    return (
        f"no documented variable leads a job to a metadata service of {cloud} at another address than 169.254.169.254, "
        "which only a node with a network of its own can have: run it with --env netns or --env docker"
    )


def variables(cloud: str, address: tuple[str, int]) -> dict[str, str]:
    """The variable for a service at that address. Raises UsageError where the cloud has none."""
    if (why := why_no_variable(cloud)) is not None:
        raise UsageError(why)
    name, form = _VARIABLES[cloud]
    return {name: form.format(f"{address[0]}:{address[1]}")}
