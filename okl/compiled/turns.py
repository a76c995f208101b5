"""Turns: threads that prepare blocks in parallel and then work on shared state one after the other, in block order.

A turn counter is an int64 array of 8 entries (a cache line of its own), of which the first holds the block whose turn
it is. The second is not 0 once a thread has failed, and nobody waits any longer; it is an entry of its own, as a thread
that is in its turn goes on to pass it. The third counts the blocks that threads have claimed, where they do not share
them out beforehand: one that begins late then keeps nobody waiting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from okl.compiled.door import compiled

_SPINS = 2000  # about a microsecond
_YIELDS = 300  # some 100 microseconds when nobody else wants the core
_NAP_MICROSECONDS = 50

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_usleep = types.ExternalFunction("usleep", types.int32(types.uint32))


def new_turns() -> NDArray[np.int64]:
    """A turn counter at block 0."""
    return np.zeros(8, dtype=np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def _load_acquire(typing_context: Any, turns: Any) -> Any:
    """First entry of an int64 array; what was written before its release is seen by what follows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(turns), generate


@intrinsic  # type: ignore[untyped-decorator]
def _store_release(typing_context: Any, turns: Any, block: Any) -> Any:
    """Write the first entry of an int64 array after everything that precedes it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        builder.store_atomic(arguments[1], array.data, "release", 8)
        return context.get_dummy_value()

    return types.void(turns, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def claim_block(typing_context: Any, turns: Any) -> Any:
    """The next block that nobody has claimed, which is claimed by that; turns change in place."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [context.get_constant(types.intp, 2)])
        return builder.atomic_rmw("add", place, context.get_constant(types.int64, 1), "monotonic")

    return types.int64(turns), generate


@compiled
def wait_turn(turns: NDArray[np.int64], block: int) -> bool:
    """Wait until it is block's turn; False if another thread failed. Spins briefly, then lets others have the core."""
    waited = 0
    while True:
        turn = _load_acquire(turns)
        if turn == block:
            return True
        if _load_acquire(turns[1:]) != 0:
            return False
        waited += 1
        if waited > _SPINS + _YIELDS:
            _usleep(np.uint32(_NAP_MICROSECONDS))
        elif waited > _SPINS:
            _sched_yield()


@compiled
def pass_turn(turns: NDArray[np.int64], block: int) -> None:
    """Give turns (changed in place) to a block."""
    _store_release(turns, block)


def give_up_turns(turns: NDArray[np.int64]) -> None:
    """Mark turns (changed in place) as failed: nobody waits any longer."""
    turns[1] = 1
