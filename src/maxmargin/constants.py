"""The constants that decide speed, in one place.

Each has its meaning, its unit and where it was chosen. `benchmarks/constants.py` measures one of
them over a range of values on generated problems::

    python benchmarks/constants.py WORKING_SET 256 512 1024 2048

Code reads them as `constants.NAME` when it runs, so that a benchmark can set them. Constants
that decide about correctness, or that hardly matter, stay where they are used.
"""

from __future__ import annotations

# Kernel values. -----------------------------------------------------------------------------

# Rows and columns of a tile: large enough for BLAS to reach its speed, small enough for the
# second-level cache together with the element-wise pass. (benchmarks/products.py)
TILE_ROWS = 512
TILE_COLUMNS = 1024
# The same of values that are stored after few multiplications: long pieces of a few rows reach the
# memory faster (5 to 20 features and covertype: 5 to 17 % less time for rows of 8,000 to 100,000
# samples).
STORED_TILE_ROWS = 128
STORED_TILE_COLUMNS = 4096
# Share of non-zeros up to which sparse products are faster than dense ones. A dense product does
# 2·d flops per value at the speed of BLAS, a sparse one 2·nnz at about half of that speed.
# (benchmarks/products.py)
SPARSE_DENSITY = 0.4
# Float32 values of few multiplications from which on two threads are faster than one: some 200 µs.
VALUES_WORTH_THREADS = 300_000
# Multiplications of a value that take as long as to gather it from a row outside the processor's
# cache: about 2 ns on two cores.
CHEAP_MULTIPLIES = 128
# Features from which on several kernel rows of one matrix product are cheaper than one by one.
FEATURES_WORTH_PRODUCTS = 48
# Features up to which rows one by one are as cheap as those of a product. (benchmarks/small.py)
FEATURES_OF_CHEAP_ROWS = 10
# Bytes of a float64 kernel matrix up to which all values are float64; larger ones have float32
# rows, which take half the time and memory. (benchmarks/small.py)
DOUBLE_PRECISION_BYTES = 2 * 2**20

# Memory. ------------------------------------------------------------------------------------

# cache_size="auto": part of the free memory, the bytes or rows beyond which a value is computed
# as fast as new memory is provided for it (benchmarks/peers.py), and the most bytes in any case.
SHARE_OF_FREE_MEMORY = 0.3
ENOUGH_BYTES = 512 * 2**20
ENOUGH_ROWS = 4096
MOST_BYTES = 2560 * 2**20
# The same, of the linear systems of all samples: 8,192 of them at most.
BYTES_OF_SYSTEMS = 2**30
# Bytes that a row cache takes at once; beyond them, uses per row that pay for new memory.
FREE_BYTES = 64 * 2**20
USES_PER_ROW = 6

# The block method. --------------------------------------------------------------------------

# Samples that are optimised together, and in the first round, where all violators look alike.
WORKING_SET = 1024
FIRST_WORKING_SET = 256
# A working set is optimised to this part of the present violation, in at most so many steps.
INNER_TOL = 0.1
STEPS_PER_ROUND = 20_000
# Steps on a whole problem in memory after which second-order steps have their turn, if that is
# fewer than so many per sample.
STEPS_AT_ONCE = 5_000
# Steps per sample, and at least, after which a problem in memory goes on without the samples that
# stay at a bound.
STEPS_PER_SAMPLE = 8
STEPS_PER_TURN = 1000
# Part of tol that the steps aim at: the rest is left to the drift of the residual.
TARGET = 0.9
# Rounds between two attempts to shrink, and the part of the samples that must stay at most:
# shrinking moves all cached rows.
SHRINK_INTERVAL = 10
WORTH_SHRINKING = 0.6
# Moves of a sample from which on its kernel row is kept: most bounded support vectors move once.
MOVES_BEFORE_CACHING = 3
# Samples from which on a round solves a part of them by rounds of its own before the others hear of
# it; that part of the samples, and at most so many; the part of the present violation that it is
# solved to, in at most so many rounds; parts one after the other while only some of the other
# samples hear of it. (benchmarks/large.py)
MANY_SAMPLES = 100_000
PART_OF_MANY = 0.2
LARGEST_PART = 65_536
PART_TOL = 0.2
ROUNDS_PER_PART = 100
PARTS_PER_ROUND = 16

# Linear kernels of few features. --------------------------------------------------------------

# Features and samples of a problem up to which the interior-point method is for it, and the
# iterations that it takes, about, for each doubling of the samples beyond 4: SMO steps come first,
# and may take part of that time. Easy problems need fewer steps. (benchmarks/small.py)
INTERIOR_POINT_FEATURES = 64
INTERIOR_POINT_SAMPLES = 8192
INTERIOR_POINT_ITERATIONS = 3

# Exact answers. -----------------------------------------------------------------------------

# Samples up to which a problem is solved beyond tol, to its exact optimum (benchmarks/small.py),
# and free samples up to which their linear system is solved after the steps.
REFINED_SAMPLES = 64
POLISHED_SAMPLES = 400

# Precision. ---------------------------------------------------------------------------------

# Part of a violation far above tol that rounding of float32 rows may cost the residual.
SHARE_OF_VIOLATION = 0.003

# Second-order steps. ------------------------------------------------------------------------

# Largest rank of a factor K = VVᵀ, and its accuracy relative to the diagonal of K.
MAX_RANK = 2000
FACTOR_ACCURACY = 1e-9
# Largest rank of a factor that need not be accurate.
ROUGH_RANK = 1000
# The cost model (solvers/common/costs.py), in nanoseconds of one core; only ratios matter, and the
# same input has the same bits whatever the machine. (benchmarks/breakdown.py)
COST_OF_PAIR_STEP = 0.8  # per sample of the working set
COST_OF_GATHERING = 1.0  # per kernel value
COST_OF_UPDATE = 0.25  # per kernel value
COST_OF_FLOP = 0.02
COST_OF_NEWTON_STEP = 1e5  # whatever its size
COST_OF_NEWTON_FLOP = 0.07  # of the factorisation; the systems that follow it are included
COST_OF_LOW_RANK_STEP = 5e4  # whatever its size
COST_OF_FACTOR_ENTRY = 2.0  # per entry of the factor and step
# Steps that IRWLS on a factor takes, and the part of its cost that SMO steps may take before it is
# tried.
LOW_RANK_STEPS = 60
LOW_RANK_PATIENCE = 0.5
