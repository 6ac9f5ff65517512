"""How solvers approach the optimum.

A noisy problem with a large C, for which SMO steps alone crawl. All end at the same optimum, which
the certificate proves: a KKT violation within tol.
"""

from sklearn.datasets import make_moons
from sklearn.preprocessing import scale

from maxmargin import SVC
from maxmargin.plotting import ConvergenceDisplay


def main():
    X, y = make_moons(4000, noise=0.3, random_state=0)
    X = scale(X)
    solvers = ("decomposition", "smo", "irwls")
    fits = {name: SVC(C=300, gamma=2.0, solver=name).fit(X, y) for name in solvers}
    return ConvergenceDisplay.from_estimators(fits).figure_
