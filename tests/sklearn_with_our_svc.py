"""A pytest plugin that puts maxmargin's estimators in the place of scikit-learn's."""

import sklearn.svm

import maxmargin

for _name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"):
    setattr(sklearn.svm, _name, getattr(maxmargin, _name))
