"""ClusterSVM: training on representatives of clusters first (Boley and Cao)."""

from maxmargin.solvers.cluster.solver import ClusterSVM

__all__ = ["ClusterSVM"]
