"""The largest of many values, which the choice of a working set asks for twice a round.

A partial sort moves values about, and takes its time where many of them are equal, as
residuals are in the first rounds. Here their leading bits are counted instead.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf

# Leading bits of a value in single precision that are counted, in two rounds of eleven: values
# that share them differ by less than a part in eight thousand, and count as equal.
_BITS = 11
_BINS = 2**_BITS
_UNCOUNTED = 32 - 2 * _BITS


@leaf()
def largest(values, allowed, count):
    """Numbers, in order, of the `count` largest values among those allowed, or of all these.

    Of values that count as equal the first are taken; what is not a number is not.
    """
    keys = np.empty(values.size, np.int32)
    high_counts = np.zeros(_BINS, np.int64)
    total = 0
    for t in range(values.size):
        keys[t] = -1
        if allowed[t] and values[t] == values[t]:
            # As whole numbers the bits of floats are in order, those of negative ones backwards.
            bits = np.int64(np.float32(values[t]).view(np.int32))
            ordered = bits + 2**31 if bits >= 0 else -1 - bits
            keys[t] = ordered >> _UNCOUNTED
            high_counts[keys[t] >> _BITS] += 1
            total += 1
    count = min(count, total)
    if count <= 0:
        return np.empty(0, np.int64)
    high, wanted = _bin_of_last(high_counts, count)
    low_counts = np.zeros(_BINS, np.int64)
    for t in range(values.size):
        if keys[t] >> _BITS == high:
            low_counts[keys[t] & (_BINS - 1)] += 1
    low, wanted = _bin_of_last(low_counts, wanted)
    threshold = (high << _BITS) + low
    chosen = np.empty(count, np.int64)
    found = 0
    for t in range(values.size):
        if keys[t] > threshold or (keys[t] == threshold and wanted > 0):
            wanted -= keys[t] == threshold
            chosen[found] = t
            found += 1
    return chosen


@leaf()
def _bin_of_last(counts, wanted):
    """The bin of the `wanted`-th largest value, and how many of that bin are among those wanted."""
    bin_ = counts.size - 1
    while counts[bin_] < wanted:
        wanted -= counts[bin_]
        bin_ -= 1
    return bin_, wanted
