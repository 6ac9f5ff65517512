"""Wide sparse samples, reduced to the features that some of them have.

A panel of products has a row for each feature. With wide data that would be far more memory than
the samples take, and most of it would meet nothing. So a group of samples numbers its own
features by a hash table, and the samples that it meets are reduced to these: often to very few.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf

# Places of the table for each feature: most searches end with the first look.
_PLACES_PER_FEATURE = 4
# 2⁶⁴ divided by the golden ratio: the high bits of its multiples are spread evenly.
_MULTIPLIER = np.uint64(11400714819323198485)


@leaf()
def _place(table, shift, feature):
    """Where the feature is in the table, or where it belongs."""
    last = np.uint64(len(table) - 1)
    place = (np.uint64(feature) * _MULTIPLIER) >> shift
    while table[place, 0] != feature and table[place, 0] >= 0:
        place = (place + np.uint64(1)) & last
    return place


@leaf()
def number_features(indices):
    """Number the features in the order in which they occur.

    Returns
    ----------
    table : array of shape (n_places, 2), the features and their numbers; −1 where none is
    shift : what `reduce_rows` needs to search the table
    numbers : for each of `indices`
    n_features : how many there are
    """
    bits = 1
    while (1 << bits) < _PLACES_PER_FEATURE * indices.size:
        bits += 1
    shift = np.uint64(64 - bits)
    table = np.full((1 << bits, 2), -1, np.int32)
    numbers = np.empty(indices.size, np.int32)
    n_features = 0
    for k in range(indices.size):
        place = _place(table, shift, indices[k])
        if table[place, 0] < 0:
            table[place, 0], table[place, 1] = indices[k], n_features
            n_features += 1
        numbers[k] = table[place, 1]
    return table, shift, numbers, n_features


@leaf()
def reduce_rows(data, indices, indptr, start, stop, table, shift):
    """Data, indices and indptr of rows with the features of a table alone, by their numbers."""
    size = indptr[stop] - indptr[start]
    new_data, new_indices = np.empty(size, data.dtype), np.empty(size, np.int32)
    new_indptr = np.zeros(stop - start + 1, np.int64)
    at = 0
    for j in range(start, stop):
        for k in range(indptr[j], indptr[j + 1]):
            place = _place(table, shift, indices[k])
            # Written in any case, kept if it is one of them: a branch would be hard to predict.
            new_data[at], new_indices[at] = data[k], table[place, 1]
            at += table[place, 0] >= 0
        new_indptr[j - start + 1] = at
    return new_data[:at], new_indices[:at], new_indptr
