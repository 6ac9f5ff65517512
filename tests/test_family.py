"""SVR, NuSVR, NuSVC and OneClassSVM: optimal by the textbook, and at home like SVC."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import ConvergenceWarning

import family_oracle as textbook
import oracle
from maxmargin import SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.estimators.multiclass import binary_tasks
from maxmargin.problem import Problem, sums_of
from maxmargin.run import Run
from maxmargin.solution import GAVE_UP
from maxmargin.solvers import SOLVERS, make_solver
from maxmargin.solvers.decomposition import small
from maxmargin.solvers.decomposition import solver as blocks
from maxmargin.solvers.smo import solver as smo

TIGHT = 1e-6
SOLVING = {
    name: [each for each in SOLVERS if name in make_solver(each).capabilities.formulations]
    for name in ("epsilon_svr", "nu_svr", "nu_svc", "one_class")
}
KINDS = {"epsilon_svr": SVR, "nu_svr": NuSVR, "nu_svc": NuSVC, "one_class": OneClassSVM}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_way = pytest.mark.parametrize(
    ("kind", "solver"), [(kind, each) for kind, names in SOLVING.items() for each in names]
)


def samples(n=60, seed=0):
    """X, noisy targets, labels, weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    targets = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    labels = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, 0)
    return X, targets, labels, rng.uniform(0.3, 2.0, n)


def target_of(kind, targets, labels):
    return {"nu_svc": labels, "one_class": None}.get(kind, targets)


def decisions(model, X):
    return model.predict(X) if is_regressor(model) else model.decision_function(X)


def gap(model, K, targets, labels, weights):
    """Primal less dual objective of a fitted model, by the textbook."""
    n, report = len(K), model.fit_report_[0]
    beta, b = textbook.coefficients(model, n), model.intercept_[0]
    if isinstance(model, SVR):
        primal = textbook.svr_primal(K, targets, beta, b, model.C * weights, model.epsilon)
    elif isinstance(model, NuSVR):
        epsilon = report.quantities["epsilon"]
        primal = textbook.nu_svr_primal(K, targets, beta, b, model.C * weights, model.nu, epsilon)
    elif isinstance(model, NuSVC):
        rho = report.quantities["rho"]  # what LIBSVM divides the decision function by
        y = np.where(labels == 1, 1.0, -1.0)
        primal = textbook.nu_svc_primal(K, y, rho * beta, rho * b, rho, weights, model.nu)
    else:
        assert_array_equal(model.offset_, -model.intercept_)
        primal = textbook.one_class_primal(K, beta, model.offset_[0], weights, model.nu)
    return primal + report.objective


@every_way
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.5, 30.0])
def test_primal_and_dual_objective_meet(kind, solver, weighted, C):
    """Weak duality: whoever attains the same value on both sides is optimal."""
    X, targets, labels, weights = samples()
    weights = weights if weighted else np.ones(len(X))
    K = oracle.kernel_values(X, X, gamma=0.5)
    model = KINDS[kind](gamma=0.5, tol=TIGHT, solver=solver)
    if "C" in model.get_params():
        model.set_params(C=C)
    elif C > 1:
        model.set_params(nu=0.1)
    model.fit(X, target_of(kind, targets, labels), sample_weight=weights)
    report = model.fit_report_
    assert report.status == "converged" and report.kkt_violation <= TIGHT
    difference = gap(model, K, targets, labels, weights)
    scale = np.abs(textbook.coefficients(model, len(X))).sum()
    assert -1e-9 * scale <= difference <= 10 * TIGHT * max(scale, C * weights.sum())
    assert_allclose(report.duality_gap, difference, atol=1e-8 * max(1.0, abs(report.objective)))


@every_kind
def test_objective_is_that_of_a_general_method(kind):
    X, targets, labels, weights = samples(24, seed=4)
    K = oracle.kernel_values(X, X, gamma=0.5)
    y = np.where(labels == 1, 1.0, -1.0)
    model = KINDS[kind](gamma=0.5, tol=TIGHT)
    model.fit(X, target_of(kind, targets, labels), sample_weight=weights)
    best = {
        "epsilon_svr": lambda: textbook.svr_dual(K, targets, weights, 0.1),
        "nu_svr": lambda: textbook.nu_svr_dual(K, targets, weights, 0.5),
        "nu_svc": lambda: textbook.nu_svc_dual(K, y, weights, 0.5),
        "one_class": lambda: textbook.one_class_dual(K, weights, 0.5),
    }[kind]()
    assert_allclose(model.fit_report_.objective, best, rtol=1e-6)


@every_way
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_equals_sklearn(kind, solver, kernel):
    if (kind, kernel) == ("nu_svc", "linear"):
        pytest.skip("no margin: scikit-learn divides by rounding")
    X, targets, labels, _ = samples()
    options = {"kernel": kernel, "gamma": 0.1, "nu": 0.3, "C": 2.0}
    options["tol"] = 1e-9 if kind == "nu_svc" else 1e-6  # its function is divided by ρ
    model = KINDS[kind](solver=solver)
    options = {name: value for name, value in options.items() if name in model.get_params()}
    theirs = getattr(sklearn.svm, type(model).__name__)(**options)
    y = target_of(kind, targets, labels)
    ours, theirs = model.set_params(**options).fit(X, y), theirs.fit(X, y)
    assert_allclose(decisions(ours, X), decisions(theirs, X), rtol=1e-4, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert ours.n_support_.shape == theirs.n_support_.shape
    assert type(ours.n_iter_) is type(theirs.n_iter_)
    if kernel == "linear":
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    if kernel == "rbf":
        assert_array_equal(ours.support_, theirs.support_)
        assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("solver", SOLVING["nu_svc"])
def test_classes_without_a_margin_are_one_sentence(solver):
    """Hulls of the classes that overlap: a decision function would be rounding over rounding."""
    X, _, labels, _ = samples()
    with pytest.warns(UserWarning, match="no margin .* raise nu or change the kernel"):
        model = NuSVC(kernel="linear", nu=0.3, solver=solver).fit(X, labels)
    assert np.isfinite(model.decision_function(X)).all()


def test_a_margin_smaller_than_tol_is_found():
    X, _, labels, _ = samples()
    rough, fine = (NuSVC(nu=0.05, tol=tol).fit(X, labels) for tol in (0.1, 1e-8))
    rho = fine.fit_report_[0].quantities["rho"]
    assert rho < 0.1
    assert_allclose(rough.fit_report_[0].quantities["rho"], rho, rtol=0.3)


@pytest.mark.parametrize(
    ("rho", "violation", "lowered"),
    [
        (1.1e-2, 9e-4, None),  # ten times tol: known well enough
        (8e-3, 9e-4, 4e-4),  # a tenth of it, and half of that: the next one may be smaller
        (1e-3, 9e-4, 5e-5),
        (5e-4, 9e-4, 1e-6),  # it could be nothing
        (5e-4, 2e-3, None),  # tol is out of reach
    ],
)
def test_a_small_margin_asks_for_no_more_than_a_part_of_it(rho, violation, lowered):
    """The decision function is divided by ρ; what is to be known of it is a tenth."""
    (task,) = binary_tasks(np.array([0, 1]), 2, "ovo", 0.5)
    outcome = SimpleNamespace(
        levels=(-rho, rho),
        kkt_violation=violation,
        status="converged",
        beta=np.zeros(2),
        details={},
    )
    following = task.follow_up(None, outcome, Run(tol=1e-3), 1e-3)
    assert (following is None) == (lowered is None)
    if following is not None:
        assert_allclose(following[1].tol, lowered)
        assert task.follow_up(None, outcome, Run(tol=1e-6), 1e-3) is None
        outcome.details = {GAVE_UP: True}
        assert task.follow_up(None, outcome, Run(tol=1e-3), 1e-3) is None


@pytest.mark.parametrize("solver", ["auto", "decomposition", "smo"])
def test_a_margin_that_is_not_there_is_not_sought_for_long(solver):
    """Random labels: no tol is low enough to find a margin, and steps towards it are few."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    with pytest.warns(UserWarning, match="found no margin"):
        model = NuSVC(nu=0.2, gamma=0.5, solver=solver).fit(X, y)
    (report,) = model.fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-3
    assert report.n_iter < 100_000


@every_kind
def test_a_weight_is_a_repetition(kind):
    X, targets, labels, _ = samples(50)
    weights = np.random.default_rng(1).integers(0, 4, 50)
    y = target_of(kind, targets, labels)
    model = KINDS[kind](tol=TIGHT).fit(X, y, sample_weight=weights)
    often = np.repeat(np.arange(50), weights)
    repeated = clone(model).fit(X[often], None if y is None else y[often])
    assert_allclose(decisions(model, X), decisions(repeated, X), atol=1e-5)


@every_kind
@pytest.mark.parametrize("n", [60, 300])
def test_sparse_is_dense(kind, n):
    X, targets, labels, _ = samples(n)
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    y = target_of(kind, targets, labels)
    dense = KINDS[kind](gamma=0.5, tol=TIGHT).fit(X, y)
    sparse = clone(dense).fit(sp.csr_array(X), y)
    assert sp.issparse(sparse.dual_coef_) and sp.issparse(sparse.support_vectors_)
    assert_allclose(decisions(sparse, sp.csr_array(X)), decisions(dense, X), atol=1e-5)


@every_kind
@pytest.mark.parametrize("kernel", ["precomputed", "callable"])
def test_other_kernels_are_the_same_model(kind, kernel):
    X, targets, labels, _ = samples(40)
    y = target_of(kind, targets, labels)

    def matrix(A, B):
        return oracle.kernel_values(A, B, gamma=0.5)

    plain = KINDS[kind](gamma=0.5, tol=TIGHT).fit(X, y)
    other = clone(plain).set_params(kernel=matrix if kernel == "callable" else kernel)
    data = X if kernel == "callable" else matrix(X, X)
    assert_allclose(decisions(other.fit(data, y), data), decisions(plain, X), atol=1e-6)


@every_kind
def test_warm_start_begins_where_the_last_fit_ended(kind):
    X, targets, labels, _ = samples(400)
    y = target_of(kind, targets, labels)
    tol = 1e-5 if kind == "nu_svc" else 1e-3  # its decision function is divided by ρ
    model = KINDS[kind](gamma=0.5, tol=tol, warm_start=True).fit(X, y)
    before = np.sum(model.n_iter_)
    values = decisions(model, X)
    assert np.sum(model.fit(X, y).n_iter_) < 0.2 * before
    assert_allclose(decisions(model, X), values, atol=5e-3)
    changed = {"epsilon": 0.2} if kind == "epsilon_svr" else {"nu": 0.4}
    model.set_params(**changed).fit(X, y)
    cold = clone(model).set_params(warm_start=False).fit(X, y)
    assert_allclose(decisions(model, X), decisions(cold, X), atol=2e-2)


@pytest.mark.parametrize("solver", SOLVING["nu_svr"])
def test_a_tube_without_width(solver):
    """Where C is large enough to fit all targets, the limit on ‖β‖₁ is slack and ε is zero."""
    X, targets, _, _ = samples(16, seed=2)
    K = oracle.kernel_values(X, X, gamma=0.5)
    model = NuSVR(C=300.0, nu=0.4, gamma=0.5, tol=TIGHT, solver=solver).fit(X, targets)
    assert model.fit_report_[0].quantities["epsilon"] == 0
    assert np.abs(model.dual_coef_).sum() < 0.4 * 300 * 16
    best = textbook.nu_svr_dual(K, targets, np.full(16, 300.0), 0.4)
    assert_allclose(model.fit_report_.objective, best, rtol=1e-5)


@pytest.mark.parametrize("n", [2, 3, 7, 20])
@pytest.mark.parametrize("nu", [1e-3, 0.9, 1.0])
@pytest.mark.parametrize("kind", ["nu_svr", "one_class"])
def test_any_nu_is_feasible_without_classes(kind, nu, n):
    """Among them sums that an odd number of samples cannot reach on both sides."""
    X, targets, _, _ = samples(n, seed=n)
    model = KINDS[kind](nu=nu, gamma=0.5, tol=TIGHT).fit(X, targets)
    assert model.fit_report_.status == "converged"
    K = oracle.kernel_values(X, X, gamma=0.5)
    assert abs(gap(model, K, targets, None, np.ones(n))) < 1e-6
    if kind == "nu_svr":
        theirs = sklearn.svm.NuSVR(nu=nu, gamma=0.5, tol=1e-8).fit(X, targets)
        assert_allclose(model.predict(X), theirs.predict(X), atol=1e-4)


def test_an_infeasible_nu_is_one_sentence():
    X, _, _, _ = samples()
    y = np.where(np.arange(60) < 6, 1, 0)
    with pytest.raises(ValueError, match=r"specified nu is infeasible: nu=0.5, .* 0.2 at most"):
        NuSVC(nu=0.5).fit(X, y)
    assert NuSVC(nu=0.2).fit(X, y).fit_report_.status == "converged"
    assert NuSVC(nu=0.9, class_weight="balanced").fit(X, y).fit_report_.status == "converged"


@every_kind
@pytest.mark.parametrize("solver", ["cluster", "greedy"])
def test_a_solver_of_classification_says_so(kind, solver):
    X, targets, labels, _ = samples()
    model = KINDS[kind](solver=solver)
    with pytest.raises(ValueError, match=f"{kind}.*solver '{solver}' does not solve"):
        model.fit(X, target_of(kind, targets, labels))
    assert not hasattr(model, "support_")


def test_reports_speak_of_their_formulation():
    X, targets, labels, _ = samples(200)
    tube = SVR(epsilon=0.25).fit(X, targets).fit_report_
    assert tube[0].quantities == {"epsilon": 0.25} and "epsilon 0.25" in str(tube)
    found = NuSVR(nu=0.3, tol=TIGHT).fit(X, targets)
    width = found.fit_report_[0].quantities["epsilon"]
    outside = (np.abs(found.predict(X) - targets) > width + 1e-5).mean()
    assert 0 < outside <= 0.3 <= found.n_support_[0] / 200
    margin = NuSVC(nu=0.3, tol=TIGHT).fit(X, labels)
    assert_allclose(  # the same function as C-SVC with C = 1/ρ
        sklearn.svm.SVC(C=margin.fit_report_[0].quantities["C"], tol=1e-8)
        .fit(X, labels).decision_function(X),
        margin.decision_function(X), atol=1e-3,
    )  # fmt: skip
    one = OneClassSVM(nu=0.2, tol=TIGHT).fit(X)
    quantities = one.fit_report_[0].quantities
    assert quantities["outliers"] <= 0.2 <= one.n_support_[0] / 200
    assert_allclose(quantities["rho"], one.offset_[0])
    assert_allclose((one.predict(X) < 0).mean(), quantities["outliers"], atol=0.02)


@every_kind
def test_pickles_and_zero_weights(kind):
    X, targets, labels, _ = samples(40)
    y = target_of(kind, targets, labels)
    weights = np.where(np.arange(40) % 4 == 0, 0.0, 1.0)
    model = KINDS[kind](tol=TIGHT).fit(X, y, sample_weight=weights)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(decisions(again, X), decisions(model, X))
    without = clone(model).fit(X[weights > 0], None if y is None else y[weights > 0])
    assert_allclose(decisions(without, X), decisions(model, X), atol=1e-6)
    assert not np.isin(model.support_, np.flatnonzero(weights == 0)).any()


def test_pieces_and_groups_of_a_problem():
    beta = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    lower, upper = -np.ones(5), np.ones(5)
    plain = Problem(None, np.zeros(5), lower, upper)
    assert not plain.kinked and plain.groups(beta) is None
    assert plain.pieces(beta)[0] is not None and plain.slopes(beta, beta) is beta
    assert_array_equal(plain.pieces(beta), [lower, upper])
    tube = Problem(None, np.zeros(5), lower, upper, epsilon=0.3)
    assert_array_equal(tube.pieces(beta), [[-1, -1, 0, 0, 0], [0, 0, 0, 1, 1]])
    assert_array_equal(tube.slopes(beta, np.zeros(5)), [0.3, 0.3, 0, -0.3, -0.3])
    two = Problem(None, np.zeros(5), lower, upper, totals=(1.5, -1.5))
    assert_array_equal(two.groups(beta[[0, 1, 3]]), [[0, 1], [0, 1], [1, 0]])
    assert two.groups(beta[3:]) is None
    assert sums_of(beta, by_sign=True) == (1.5, -1.5)


@pytest.mark.parametrize("totals", [(2.5,), (-1.0,), (1.5, -2.0), (0.0, 0.0)])
def test_a_start_reaches_its_sums_with_few_samples(totals):
    rng = np.random.default_rng(0)
    costs, linear = rng.uniform(0.5, 1.0, 40), rng.normal(size=40)

    class Kernel:
        n = 40

    problem = Problem(Kernel(), linear, -costs, costs, totals=totals)
    beta = problem.feasible()
    assert_allclose(sums_of(beta, len(totals) == 2), totals, atol=1e-12)
    assert (np.abs(beta) <= costs).all()
    assert np.count_nonzero(beta) <= 2 * sum(map(abs, totals)) + 2


@every_kind
@pytest.mark.parametrize("sparse", [False, True])
def test_models_go_to_sklearn_and_back(kind, sparse):
    X, targets, labels, _ = samples(50)
    data = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)) if sparse else X
    model = KINDS[kind](tol=TIGHT).fit(data, target_of(kind, targets, labels))
    theirs = model.to_sklearn()
    assert type(theirs) is getattr(sklearn.svm, type(model).__name__)
    assert_allclose(decisions(theirs, data), decisions(model, data), atol=1e-10)
    again = type(model).from_sklearn(theirs)
    assert_allclose(decisions(again, data), decisions(model, data), atol=1e-12)
    assert_allclose(again.predict(data), theirs.predict(data), atol=1e-10)
    assert type(again.n_iter_) is type(theirs.n_iter_)
    with pytest.raises(TypeError, match="Expected a fitted sklearn"):
        type(model).from_sklearn(sklearn.svm.SVC())


@pytest.mark.parametrize("kind", ["epsilon_svr", "nu_svr"])
@pytest.mark.parametrize("gamma", [0.5, 8.0])
def test_a_large_cost_is_solved_by_second_order_steps(kind, gamma):
    """By factors of low rank where there are any, also where two sums of β are fixed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=1500)
    model = KINDS[kind](C=1e4, gamma=gamma).fit(X, y)
    report = model.fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-3
    steps = report.problems[0].details["second_order"]
    assert {"rough IRWLS", "low-rank IRWLS"} & set(steps) if gamma < 1 else steps


def friedman(n, seed=0):
    """X, and noisy targets of a function of it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, y + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n)


@pytest.mark.parametrize(
    ("n", "gamma", "nu", "solver", "most"),
    [
        (700, 0.1, 0.9, "auto", 60_000),  # the tube of IRWLS closes: 202,485 steps before
        (500, 1.0, 0.1, "auto", 25_000),  # the levels cross: 38,003
        (150, 1.0, 0.3, "smo", 5_500),  # 6,919
    ],
)
def test_a_slack_limit_is_noticed_early(n, gamma, nu, solver, most):
    """Steps on two sums would go on for long, whose solution has a tube of negative width."""
    X, y = friedman(n)
    model = NuSVR(C=1e4, gamma=gamma, nu=nu, solver=solver).fit(X, y)
    report = model.fit_report_
    assert report.status == "converged" and report[0].quantities["epsilon"] == 0
    assert model.n_iter_ < most
    K = oracle.kernel_values(X, X, gamma=gamma)
    assert abs(gap(model, K, y, None, np.ones(n))) < 1e-4 * abs(report.objective)


@pytest.mark.parametrize("solver", ["auto", "smo"])
def test_a_limit_that_was_thought_slack_in_error(monkeypatch, solver):
    """The problem with one sum shows it, and two sums are kept the second time."""
    X, y = friedman(150)
    model = NuSVR(C=1e3, gamma=0.1, nu=0.5, solver=solver, tol=TIGHT).fit(X, y)
    asked = []

    def always(problem, violation, levels):
        asked.append(problem.limited)
        return problem.limited

    for module in (small, blocks, smo):
        monkeypatch.setattr(module, "seems_slack", always)
    again = clone(model).fit(X, y)
    assert any(asked)
    assert again.fit_report_.status == "converged"
    assert again.fit_report_[0].quantities["epsilon"] > 0
    assert_allclose(again.fit_report_.objective, model.fit_report_.objective, rtol=1e-8)


def test_weights_beyond_float64_get_a_sentence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    with pytest.warns(ConvergenceWarning, match="Weights this large ask for a hard margin"):
        NuSVC(nu=0.3).fit(X, y, sample_weight=np.full(120, 1e20))
