"""Silent data corruption, mapped: which wrong number, where and when, matters for a job (`chaoskit sdc-map`)."""

from __future__ import annotations

from chaoskit.sdc.map import SdcMap, Share
from chaoskit.sdc.survey import make_map
from chaoskit.sdc.trace import CLASSES

__all__ = ["CLASSES", "SdcMap", "Share", "make_map"]
