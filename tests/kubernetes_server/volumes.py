"""The volumes of a pod: directories of this machine, file systems in memory, and files of what the API has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes_server.admission import quantity
from tests.kubernetes_server.claim_controller import claim_of
from tests.kubernetes_server.containers import Containers
from tests.kubernetes_server.pod_values import Missing, PodValues, expand

Json = dict[str, Any]
PLURALS = {"configMap": "configmaps", "secret": "secrets"}


@dataclass(frozen=True)
class Volume:
    """What is mounted: a directory here, or a volume of the daemon by its name."""

    directory: Path | None = None
    name: str = ""
    read_only: bool = False


class PodVolumes:
    """The volumes of one pod. `claims` gives the directory of a claim; what is made lies below `directory`."""

    def __init__(
        self, pod: Json, *, directory: Path, containers: Containers, claims: Callable[[str], Path]
    ) -> None:
        self._pod, self._directory, self._containers, self._claims = pod, directory, containers, claims
        self._made: dict[str, Volume] = {}
        self._in_memory: list[str] = []

    def prepare(self, values: PodValues) -> None:
        """Make those that are not made yet. Raises Missing."""
        for volume in self._pod["spec"].get("volumes") or ():
            if volume["name"] not in self._made:
                try:
                    self._made[volume["name"]] = self._volume(volume, values)
                except Missing as error:
                    raise Missing(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}') from error

    def memory_mounts(self) -> list[Json]:
        """For the sandbox: while it has them, nothing in them is lost."""
        return [
            {"Type": "volume", "Source": name, "Target": f"/volumes/{number}", "ReadOnly": False}
            for number, name in enumerate(self._in_memory)
        ]

    def mounts(self, container: Json, env: Mapping[str, str]) -> list[Json]:
        """The mounts of a container, as Docker takes them."""
        return [self._mount(mount, env) for mount in container.get("volumeMounts") or ()]

    def remove(self) -> None:
        """Remove those in memory, once no container has them."""
        for name in self._in_memory:
            self._containers.remove_volume(name)

    def _mount(self, mount: Json, env: Mapping[str, str]) -> Json:
        volume = self._made[mount["name"]]
        read_only = volume.read_only or bool(mount.get("readOnly"))
        if volume.directory is None:
            return {"Type": "volume", "Source": volume.name, "Target": mount["mountPath"], "ReadOnly": read_only}
        source = volume.directory
        if below := mount.get("subPath") or expand(mount.get("subPathExpr", ""), env):
            source = source / below
            if not source.exists():
                source.mkdir(parents=True)
                source.chmod(volume.directory.stat().st_mode & 0o7777)
        return {"Type": "bind", "Source": str(source), "Target": mount["mountPath"], "ReadOnly": read_only}

    def _volume(self, volume: Json, values: PodValues) -> Volume:
        if claim := volume.get("persistentVolumeClaim"):
            return Volume(self._claims(claim["claimName"]), read_only=bool(claim.get("readOnly")))
        if "ephemeral" in volume:
            return Volume(self._claims(claim_of(self._pod, volume)))
        directory = self._directory / "volumes" / volume["name"]
        if "emptyDir" in volume:
            about = volume["emptyDir"] or {}
            if about.get("medium") == "Memory":
                size = int(quantity(about["sizeLimit"])) if "sizeLimit" in about else None
                name = self._containers.memory_volume(f"{self._pod['metadata']['uid']}-{volume['name']}", size)
                self._in_memory.append(name)
                return Volume(name=name)
            directory.mkdir(parents=True)
            directory.chmod(0o777)
            return Volume(directory)
        sources = volume["projected"].get("sources") or [] if "projected" in volume else [volume]
        files = [file for source in sources for file in _files(source, values)]
        about = [one for one in volume.values() if isinstance(one, dict)]
        mode = next((one["defaultMode"] for one in about if "defaultMode" in one), 0o644)
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(0o755)
        for path, content, own in files:
            place = directory / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            place.chmod(mode if own is None else own)
        return Volume(directory, read_only=True)


def _files(source: Json, values: PodValues) -> Iterator[tuple[str, bytes, int | None]]:
    """The paths, contents and modes of the files of one source. Raises Missing."""
    if "downwardAPI" in source:
        for item in source["downwardAPI"].get("items") or ():
            yield item["path"], values.field(item["fieldRef"]["fieldPath"]).encode(), item.get("mode")
        return
    kind = next((kind for kind in PLURALS if kind in source), None)
    if kind is None:
        raise Missing(f"no volume plugin matched: {', '.join(sorted(set(source) - {'name'}))}")
    about = source[kind]
    name, optional = about.get("name") or about.get("secretName"), about.get("optional", False)
    data = values.data(PLURALS[kind], name, optional=optional)
    if "items" not in about:
        yield from ((key, content, None) for key, content in data.items())
    for item in about.get("items") or ():
        if item["key"] in data:
            yield item["path"], data[item["key"]], item.get("mode")
        elif not optional:
            where = f"{values.pod['metadata']['namespace']}/{name}"
            raise Missing(f"references non-existent {PLURALS[kind][:-1]} key: {item['key']} of {where}")
