"""Minimum and maximum that LLVM vectorises.

Numba writes `max(a, b)` as a branch that keeps NaN semantics, and LLVM then
leaves a reduction over it scalar. The intrinsics below promise that no NaN
occurs, and the reduction becomes vector instructions.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_NO_NAN = ("nnan", "nsz")


def _two_operand(name):
    def generate(context, builder, signature, args):
        kind = context.get_value_type(signature.return_type)
        function = builder.module.declare_intrinsic(
            name, [kind], ir.FunctionType(kind, [kind, kind])
        )
        return builder.call(function, args, fastmath=_NO_NAN)

    return generate


@intrinsic
def fast_max(typing_context, a, b):
    """max(a, b) of two floats of one type, neither of them NaN."""
    if isinstance(a, types.Float) and a == b:
        return a(a, b), _two_operand("llvm.maxnum")


@intrinsic
def fast_min(typing_context, a, b):
    """min(a, b) of two floats of one type, neither of them NaN."""
    if isinstance(a, types.Float) and a == b:
        return a(a, b), _two_operand("llvm.minnum")
