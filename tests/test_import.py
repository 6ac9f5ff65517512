"""`import maxmargin` costs what scikit-learn's import costs: no compiler is loaded."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn import svm
from sklearn.model_selection import GridSearchCV

import maxmargin
from maxmargin.sklearn_private import CallbackSupportMixin


@pytest.mark.parametrize(
    "statement",
    [
        "import maxmargin",
        "import maxmargin; dir(maxmargin)",
        "from maxmargin import SVC; SVC()",
        "from maxmargin import io; io.read_data; io.load_model",
    ],
)
def test_import_leaves_the_compiler_alone(statement):
    code = f"{statement}\nimport sys\nprint([m for m in ('numba', 'llvmlite') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_model_files_leave_pipelines_alone():
    """Their import brings scikit-learn's preprocessing along, a third of a second."""
    code = "from maxmargin.io import load_model, save_model\n"
    code += "import sys\nprint('sklearn.pipeline' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_fits_on_the_processor_leave_the_solver_of_the_gpu_alone():
    code = "from maxmargin import SVC\nSVC().fit([[0], [1]], [0, 1])\n"
    code += "import sys\nprint('maxmargin.solvers.sweeps' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_private_names_of_scikit_learn_are_in_one_module():
    """Where a version lacks one there is then one place to look at."""
    private = re.compile(
        r"from sklearn(\.\w+)*(\._\w+[\w.]* import| import [^\n]*(?<!\w)_[a-zA-Z])"
    )
    package = Path(maxmargin.__file__).parent
    found = {path.name for path in package.rglob("*.py") if private.search(path.read_text("utf-8"))}
    assert found == {"sklearn_private.py"}


def test_private_methods_of_scikit_learn_are_called_in_one_module():
    """Those of the classes that ours derive from, or take apart; and what ours may override."""
    theirs = {
        name
        for kind in (GridSearchCV, CallbackSupportMixin, svm.SVC, svm.SVR, svm.OneClassSVM)
        for name in dir(kind)
        if re.match(r"_(?!_|repr_)\w+", name)
    } | {"_scorers", "_skl_callbacks", "_callback_fit_ctx", "_BaseLibSVM__Xfit", "_num_iter"}
    theirs -= {"_validate_for_predict"}  # ours, of classes that do not derive from theirs
    package = Path(maxmargin.__file__).parent
    called, overridden = set(), set()
    for path in package.rglob("*.py"):
        if path.name == "sklearn_private.py":
            continue
        nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
        called |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        overridden |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        targets = [t for node in nodes if isinstance(node, ast.Assign) for t in node.targets]
        targets += [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
        overridden |= {target.id for target in targets if isinstance(target, ast.Name)}
    assert not theirs & called
    assert theirs & overridden == {
        "_doc_link_module", "_doc_link_template", "_doc_link_url_param_generator",
        "_parameter_constraints",
    }  # fmt: skip


def test_public_names():
    for name in maxmargin.__all__:
        assert getattr(maxmargin, name) is not None
        assert name in dir(maxmargin)
    assert len(set(dir(maxmargin))) == len(dir(maxmargin))
    assert set(dir(maxmargin)) == {*maxmargin.__all__, "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'LinearSVC'; it has SVC, SVR"):
        _ = maxmargin.LinearSVC


def test_own_modules_are_imported_at_the_top():
    """But for two that need an optional extra. What is to come late is in a `deferred` module."""
    package = Path(maxmargin.__file__).parent
    inside = set()
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for node in (node for function in functions for node in ast.walk(function)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = ["maxmargin" if node.level else node.module]
            if any(name.partition(".")[0] == "maxmargin" for name in names):
                inside.add((path.relative_to(package).as_posix(), node.module))
    assert inside == {
        ("cli/__init__.py", "maxmargin.cli._app"),
        ("execution/executors.py", "maxmargin.execution.dask"),
    }
