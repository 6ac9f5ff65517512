"""How functions are compiled: leaves that Python calls, and parts that only compiled code calls.

Numba would optimise every part by itself, make machine code of it that nobody runs, and optimise
it once more inside each function that calls it. A part is therefore linked into its callers as it
is, and optimised there.
"""

# Numba's compiler has no types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

from functools import partial

from numba import _dynfunc, njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering


class _LinkedLibrary(JITCodeLibrary):
    """Code that is linked into what calls it, and neither optimised nor run by itself."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LinkedLowering(NativeLowering):
    """Numba's last pass, but for the machine code."""

    _name = "linked_lowering"

    def run_pass(self, state) -> bool:
        library = _LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        library.enable_object_caching()
        state.library, state.flags.no_compile = library, True
        super().run_pass(state)
        library.finalize()
        # Callers find a part by its function object, which has no code of its own.
        name = state.cr.fndesc.qualname.rpartition(".")[2]
        module = state.cr.fndesc.lookup_module()
        function = _dynfunc.make_function(module, name, "", 0, state.cr.env, (library,))
        state.targetctx.insert_user_function(function, state.cr.fndesc, [library])
        state.cr = state.cr._replace(cfunc=function)
        return True


class _LinkedCompiler(Compiler):
    def define_pipelines(self):
        [manager] = super().define_pipelines()
        manager.passes = [
            (_LinkedLowering if step is NativeLowering else step, text)
            for step, text in manager.passes
        ]
        manager._finalized = False
        manager.finalize()
        return [manager]


# Python calls these; nobody calls them from C, for which Numba would compile an entry point.
leaf = partial(njit, cache=True, nogil=True, no_cfunc_wrapper=True)
# Python must not call these: they have no entry point for it, which for tuples of arrays takes
# longer to compile than their loops. Nothing is cached, since what calls them is.
inner = partial(
    njit, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True,
    pipeline_class=_LinkedCompiler,
)  # fmt: skip


def part_of(function):
    """A leaf as compiled code calls it: without its entry point, and not cached by itself."""
    options = function.targetoptions
    same = {name: options[name] for name in ("fastmath", "error_model") if name in options}
    return inner(**same)(function.py_func)
