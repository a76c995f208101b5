"""What shards add up while the multiplier of a hyperplane is sought: sums at several candidates in one pass.

Legend: p points, s signs (-1 or +1), u upper bounds, all (m,); t thresholds (2, K), of the signs +1 and -1.
"""

from __future__ import annotations

from okl.compiled.door import compiled_sum
from okl.types import FloatArray


@compiled_sum
def clipped_sums(
    sums: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, thresholds: FloatArray
) -> None:
    """Add to sums (2, K, 2) the sums of x = min(max(p - t, 0), u) over the entries of a sign, and how many are inside.

    Inside is 0 < x < u, where x falls as t grows.
    """
    for i in range(points.shape[0]):
        p, u = points[i], upper[i]
        group = 0 if signs[i] > 0.0 else 1
        into, here = sums[group], thresholds[group]
        for k in range(here.shape[0]):
            x = p - here[k]
            inside = (x > 0.0) & (x < u)
            x = 0.0 if x < 0.0 else x
            into[k, 0] += u if x > u else x
            into[k, 1] += 1.0 if inside else 0.0


@compiled_sum
def clip_by_sign(
    out: FloatArray, points: FloatArray, signs: FloatArray, upper: FloatArray, plus: float, minus: float
) -> None:
    """Overwrite out (m,) by x = min(max(p - t, 0), u), t = plus or minus by the sign."""
    for i in range(points.shape[0]):
        x = points[i] - (plus if signs[i] > 0.0 else minus)
        x = 0.0 if x < 0.0 else x
        out[i] = upper[i] if x > upper[i] else x
