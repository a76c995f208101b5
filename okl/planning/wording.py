"""What is foreseen, for people: one run in lines, many in a table."""

from __future__ import annotations

from okl.planning.forecast import Forecast
from okl.planning.outlook import Outlook
from okl.store.texttables import aligned

UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(n_bytes: float) -> str:
    """Bytes in a unit that leaves three digits or so.

    >>> size(3), size(5_000), size(3 * 2**30)
    ('3 B', '4.88 KiB', '3 GiB')
    """
    value, unit = float(n_bytes), 0
    while value >= 1000.0 and unit < len(UNITS) - 1:
        value, unit = value / 1024.0, unit + 1
    return f"{value:.3g} {UNITS[unit]}" if value < 99.5 else f"{value:.0f} {UNITS[unit]}"


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days.

    >>> duration(0.01), duration(75), duration(10_000), duration(1e6)
    ('0.01 s', '75 s', '2.8 h', '11.6 d')
    """
    for most, each, unit in ((120.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h")):
        if seconds < most:
            return f"{seconds / each:.2g} {unit}" if seconds / each < 10.0 else f"{seconds / each:.0f} {unit}"
    return f"{seconds / 86400.0:.1f} d"


def outlook_text(told: Outlook) -> str:
    """One run, or a table of many."""
    scene, network = told.scene, told.network
    by = "on this machine" if network.gbit is None else f"by {network.gbit:g} Gbit/s"
    head = (
        f"{scene.rows:,} rows x {len(scene.features)}, {scene.shards:,} shards, {scene.task}; {by}, "
        f"{network.latency_ms:g} ms; constants of {told.machine.identity.split(', okl')[0]}"
    )
    if len(told.forecasts) == 1 and not told.refused:
        return "\n".join([head, *_lines(told.forecasts[0])])
    return "\n".join([head, "", *_table(told.forecasts), *(f"{name}: {why}" for name, why in told.refused)])


def _lines(one: Forecast) -> list[str]:
    where = f"{one.workers} workers" if one.workers > 1 else ("1 worker" if one.workers else "this process")
    lines = [
        f"{one.solver} by {one.mode}, {where}",
        f"  learning  {duration(one.seconds)}: work {duration(one.compute_seconds)}, first reading and mapping "
        f"{duration(one.load_seconds)}, Dask {duration(one.engine_seconds)}, network "
        f"{duration(one.network_seconds)}, caller {duration(one.own_seconds)}",
    ]
    if one.rounds and one.workers:
        lines += [
            f"  rounds    {one.rounds:,.0f}, each {size(one.bytes_sent / one.rounds)} out and "
            f"{size(one.bytes_received / one.rounds)} back",
            f"  messages  {size(one.bytes_sent)} out, {size(one.bytes_received)} back; with what Dask and TCP add "
            f"{size(one.wire_sent)} and {size(one.wire_received)}",
        ]
    lines.append(f"  {one.memory.sentence(one.workers)}; the driver takes {size(one.memory.driver)}")
    if one.mode == "stream" and one.workers:
        lines.append("  stream learns in one process, whatever the workers: mix and sum spread it")
    elif one.stops_at is not None:
        lines.append(f"  from {one.stops_at:,} workers on, rounds take longer to carry than to work on")
    elif one.workers and one.rounds:
        lines.append("  work takes longer than what crosses, down to one shard a worker")
    return lines


def _table(forecasts: tuple[Forecast, ...]) -> list[str]:
    columns = ("solver", "mode", "rounds", "learning", "of it work", "out / round", "back / round", "worker", "driver")
    rows = [
        (
            one.solver, one.mode, f"{one.rounds:,.0f}", duration(one.seconds),
            f"{100.0 * (one.compute_seconds + one.load_seconds) / max(one.seconds, 1e-12):.0f}%",
            size(one.bytes_sent / max(1.0, one.rounds)), size(one.bytes_received / max(1.0, one.rounds)),
            size(one.memory.worker), size(one.memory.driver),
            "shards" if one.stops_at is None else f"{one.stops_at:,}",
        )
        for one in forecasts
    ]  # fmt: skip
    return [
        *aligned([(*columns, "stops at"), *rows], numbers_from=2),
        "",
        "stops at: workers from which rounds take longer to carry than to work on; shards: not before each has but one",
    ]
