"""A pytest plugin that puts maxmargin's SVC in the place of scikit-learn's."""

import sklearn.svm

from maxmargin import SVC

sklearn.svm.SVC = SVC
