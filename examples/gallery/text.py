"""Text: which library is a docstring from?

Words become a sparse matrix of TF-IDF weights, and a linear kernel gives each word a weight. The
texts are the docstrings of the installed NumPy and SciPy.
"""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from maxmargin import SVC


def docstrings(*modules):
    things = [getattr(module, name) for module in modules for name in dir(module)]
    return sorted({inspect.getdoc(thing) or "" for thing in things if callable(thing)} - {""})


def main():
    numpy_texts = docstrings(np, np.linalg, np.fft, np.random)
    scipy_texts = docstrings(scipy.linalg, scipy.signal, scipy.special, scipy.stats)
    texts = numpy_texts + scipy_texts
    labels = ["NumPy"] * len(numpy_texts) + ["SciPy"] * len(scipy_texts)
    words = TfidfVectorizer(token_pattern=r"[a-z]{3,}", stop_words=["numpy", "scipy"], min_df=5)
    model = make_pipeline(words, SVC(kernel="linear"))
    accuracy = cross_val_score(model, texts, labels, cv=5).mean()
    model.fit(texts, labels)
    weights = model[-1].coef_.toarray()[0]
    names = words.get_feature_names_out()
    ends = np.argsort(weights)
    chosen = np.concatenate([ends[:10], ends[-10:]])
    figure, ax = plt.subplots(figsize=(6.4, 5.2), layout="constrained")
    colours = np.where(weights[chosen] > 0, "#d9822b", "#2f6db3")
    ax.barh(names[chosen], weights[chosen], color=colours)
    ax.set(
        xlabel="← NumPy    weight of a word    SciPy →",
        title=f"{len(texts):,} docstrings, {100 * accuracy:.1f}% right by cross-validation",
    )
    return figure
