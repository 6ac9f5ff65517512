"""Flags that one thread sets and others read, with what was written before them.

Plain stores may become visible in another order on some processors.
"""

# mypy: ignore-errors

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _address(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, array_type, data, [index])


@intrinsic
def load_flag(typing_context, flags, index):
    """flags[index] of an int32 array, and everything that was written before it was set."""

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "acquire", 4, typ=ir.IntType(32))

    return types.int32(flags, types.int64), generate


@intrinsic
def store_flag(typing_context, flags, index, value):
    """flags[index] = value of an int32 array, after everything that was written before."""

    def generate(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], pointer, "release", 4)
        return context.get_dummy_value()

    return types.void(flags, types.int64, types.int32), generate
