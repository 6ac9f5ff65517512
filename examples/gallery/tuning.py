"""C and γ by cross-validation.

A search over powers of two, with all kernel matrices shared between the candidates. Good values
lie on a ridge: a larger γ wants a smaller C.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import SVCSearch
from maxmargin.plotting import plot_grid


def main():
    X, y = load_breast_cancer(return_X_y=True)
    grid = {"C": [2.0**k for k in range(-5, 12, 2)], "gamma": [2.0**k for k in range(-13, 2, 2)]}
    search = SVCSearch(grid, cv=5).fit(scale(X), y)
    return plot_grid(search).figure_
