"""The map of silent data corruption: which corrupted numbers matter for a job, by target, change and step."""

from __future__ import annotations

from chaoskit.studies.sdc.map import SdcMap, Share
from chaoskit.studies.sdc.survey import make_map
from chaoskit.studies.sdc.trace import CLASSES

__all__ = ["CLASSES", "SdcMap", "Share", "make_map"]
