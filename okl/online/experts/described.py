"""What a map that was chosen is, in a few words."""

from __future__ import annotations

from typing import Any

from okl.features.protocol import FeatureMap


def map_chosen(feature_map: FeatureMap, why: str) -> dict[str, Any]:
    """The bandwidth of a map, or that it is linear, with the reason: for people."""
    description = feature_map.describe()
    if "kernel" not in description:
        return {"map": description["kind"], "map_reason": why}
    return {"bandwidth": description["kernel"]["bandwidth"], "bandwidth_reason": why}
