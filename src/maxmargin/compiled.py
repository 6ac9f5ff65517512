"""How functions are compiled that only compiled code calls."""

from __future__ import annotations

from functools import partial

from numba import njit

# Without the entry points for the interpreter and for C, which take arguments apart one by one:
# they would be compiled beside every function, and for tuples of arrays take longer than its loops.
# Nothing is cached either, since what calls them is. Python must not call such a function.
inner = partial(njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
