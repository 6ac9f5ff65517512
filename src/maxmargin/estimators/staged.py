"""Decision values of the models on the way to the last one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from maxmargin.parallel import split

# Stages whose decision values are one matrix product.
_STAGES_AT_ONCE = 64


def staged_decisions(model, X) -> Iterator[np.ndarray]:
    """Values of all binary decision functions of a fitted SVC, stage by stage.

    Each support vector is met once: a block of them, times a triangle of
    coefficients, gives what each stage of the block adds to the one before it.

    Yields
    ------
    array of shape (n_samples, n_tasks)
    """
    paths = model._stages
    position = np.zeros(model.shape_fit_[0], np.int64)
    position[model.support_] = np.arange(len(model.support_))
    values = [0.0] * len(paths)
    for stages in split(max(len(path.samples) for path in paths), _STAGES_AT_ONCE):
        width = stages.stop - stages.start
        blocks = []
        for task, path in enumerate(paths):
            samples, coefficients = path.samples[stages], path.coefficients[stages]
            triangle = np.triu(np.repeat(coefficients[:, np.newaxis], width, axis=1))
            block = values[task] + model._expansion(X, position[samples], triangle)
            values[task] = block[:, -1:]
            last = len(path.intercepts) - 1
            blocks.append(
                block + path.intercepts[np.minimum(np.arange(width) + stages.start, last)]
            )
        yield from np.stack(blocks, axis=-1).transpose(1, 0, 2)
