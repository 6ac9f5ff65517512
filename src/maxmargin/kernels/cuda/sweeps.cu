// The operations of sweeps and Newton steps, on a kernel matrix K in memory. Compiled together with
// kernels.cu, whose promises hold here too.


// What a reduction keeps of the samples of one sum: the highest residual of those that can grow, the
// lowest of those that can shrink, sum and number of the free ones.
struct Extremes {
    double highest, lowest, total, free;
    __device__ void add(const Extremes& other) {
        highest = fmax(highest, other.highest);
        lowest = fmin(lowest, other.lowest);
        total += other.total;
        free += other.free;
    }
};

__device__ __forceinline__ Extremes from_lane(const Extremes& own, int offset) {
    return Extremes{__shfl_xor_sync(0xffffffffu, own.highest, offset),
                    __shfl_xor_sync(0xffffffffu, own.lowest, offset),
                    __shfl_xor_sync(0xffffffffu, own.total, offset),
                    __shfl_xor_sync(0xffffffffu, own.free, offset)};
}

// Per thread block the extremes of each of two sums; of one sum, the first. `epsilon` is half the
// width of a tube; with `by_sign` positive and negative beta have a sum each, and a zero belongs to
// both. As in optimality.py. out has one column per thread block.
extern "C" __global__ void extremes(const double* beta, const double* residual,
                                    const double* lower, const double* upper, long long n,
                                    double epsilon, int by_sign, double* out) {
    const double infinity = __longlong_as_double(0x7ff0000000000000LL);
    Extremes of[2];
    for (int side = 0; side < 2; ++side) of[side] = Extremes{-infinity, infinity, 0.0, 0.0};
    bool kinked = by_sign || epsilon > 0.0;
    for (long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x; t < n;
         t += (long long)gridDim.x * blockDim.x) {
        double b = beta[t], r = residual[t];
        bool can_grow = b < upper[t], can_shrink = b > lower[t];
        if (can_grow) {  // at zero it grows on the positive side
            Extremes& e = of[by_sign && b < 0.0];
            e.highest = fmax(e.highest, b < 0.0 ? r + epsilon : r - epsilon);
        }
        if (can_shrink) {  // at zero it shrinks on the negative side
            Extremes& e = of[by_sign && b <= 0.0];
            e.lowest = fmin(e.lowest, b > 0.0 ? r - epsilon : r + epsilon);
        }
        if (can_grow && can_shrink && (b != 0.0 || !kinked)) {
            Extremes& e = of[by_sign && b < 0.0];
            e.total += b > 0.0 ? r - epsilon : r + epsilon;
            e.free += 1.0;
        }
    }
    __shared__ Extremes shared[2][32];
    int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    for (int side = 0; side < 2; ++side) {
        for (int offset = 16; offset > 0; offset >>= 1) of[side].add(from_lane(of[side], offset));
        if ((threadIdx.x & 31) == 0) shared[side][warp] = of[side];
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        Extremes e = shared[threadIdx.x][0];
        for (int w = 1; w < warps; ++w) e.add(shared[threadIdx.x][w]);
        double values[4] = {e.highest, e.lowest, e.total, e.free};
        for (int k = 0; k < 4; ++k)
            out[(4 * threadIdx.x + k) * gridDim.x + blockIdx.x] = values[k];
    }
}

// The smooth piece of the problem on which each sample is: its bounds there, and the pull on it, the
// residual less tube and multiplier of its sum. As `pieces` in pieces.py.
extern "C" __global__ void pieces(const double* beta, const double* residual, const double* lower,
                                  const double* upper, long long n, double epsilon, int by_sign,
                                  double positive_level, double negative_level, int only,
                                  double* pull, double* least, double* most) {
    long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= n) return;
    double b = beta[t], up = residual[t] - epsilon - positive_level;
    double down = residual[t] + epsilon - negative_level;
    if (!by_sign && epsilon == 0.0) {
        pull[t] = up;
        least[t] = lower[t];
        most[t] = upper[t];
        return;
    }
    bool positive = b > 0.0;
    if (b == 0.0) positive = upper[t] > 0.0 && (!(lower[t] < 0.0) || up >= -down);
    pull[t] = positive ? up : down;
    bool held = only >= 0 && positive != (only == 0);
    least[t] = held ? b : positive ? 0.0 : lower[t];
    most[t] = held ? b : positive ? upper[t] : 0.0;
}

// Which samples enter a sweep, in the order of neighbours: flags[0] of those that should grow,
// flags[1] of those that should shrink; score is their violation.
extern "C" __global__ void mark(const double* beta, const double* pulls, const double* lower,
                                const double* upper, const long long* order, long long n,
                                double threshold, double bonus, double spread, double* score,
                                int* flags) {
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (at >= n) return;
    long long t = order[at];
    bool can_grow = beta[t] < upper[t], can_shrink = beta[t] > lower[t];
    double pull = pulls[t], size = fabs(pull);
    bool grows = pull >= 0;
    double violation = (grows ? can_grow : can_shrink) ? size : -size;
    if (can_grow && can_shrink) violation += bonus;
    // Among equals a hash decides, as if by chance.
    violation *= 1.0 - spread * double((unsigned)t * 2654435761u) / 4294967296.0;
    score[at] = violation;
    bool chosen = violation > threshold;
    flags[at] = chosen && grows;
    flags[n + at] = chosen && !grows;
}

// Deals the marked samples out to working sets: each list is cut into `count` pieces of equal
// length, moved by `shift` of a piece; ends holds the running sums of all flags.
extern "C" __global__ void deal(const long long* order, const int* flags, const long long* ends,
                                long long n, long long growing, long long shrinking,
                                long long count, long long size, double shift,
                                long long* index) {
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (at >= n) return;
    for (int side = 0; side < 2; ++side) {
        if (!flags[side * n + at]) continue;
        long long m = side ? shrinking : growing;
        long long first = side ? (growing + count - 1) / count : 0;
        long long by = (long long)(shift * m / count);
        long long position = (ends[side * n + at] - side * growing - 1 - by + m) % m;
        long long block = position * count / m;
        long long slot = first + position - (block * m + count - 1) / count;
        if (slot < size) index[block * size + slot] = order[at];
    }
}

// The samples of each working set that have moved, in their order: which, by how much, how many.
// One warp per set.
extern "C" __global__ void moved_samples(const long long* index, const double* change, int m,
                                         long long* samples, double* moves, int* counts) {
    long long first = blockIdx.x * (long long)m;
    int lane = threadIdx.x, count = 0;
    for (int s = lane; s < m; s += 32) {  // m is a multiple of 32
        double move = change[first + s];
        unsigned moved = __ballot_sync(0xffffffffu, move != 0.0);
        if (move != 0.0) {
            int place = count + __popc(moved & ((1u << lane) - 1u));
            samples[first + place] = index[first + s];
            moves[first + place] = move;
        }
        count += __popc(moved);
    }
    if (lane == 0) counts[blockIdx.x] = count;
}

// products[b, c] = sum over the samples s of working set b that have moved of move * K[s, c],
// summed up in double. A thread has COLUMNS columns, so that enough values are on their way from
// memory at any time.
const int COLUMNS = 4;
template <typename T>
__global__ void block_products(const T* K, long long n, const long long* samples,
                               const double* moves, const int* counts, int m, double* products) {
    long long first = blockIdx.x * (long long)(blockDim.x * COLUMNS) + threadIdx.x;
    const long long* rows = samples + blockIdx.y * (long long)m;
    const double* by = moves + blockIdx.y * (long long)m;
    int count = counts[blockIdx.y];
    long long column[COLUMNS];
    double sum[COLUMNS];
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) {
        column[k] = first + k * blockDim.x;
        if (column[k] >= n) column[k] = n - 1;  // read, and not written
        sum[k] = 0.0;
    }
#pragma unroll 4
    for (int s = 0; s < count; ++s) {
        const T* row = K + rows[s] * n;
        double move = by[s];
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k) sum[k] += move * double(row[column[k]]);
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k)
        if (first + k * blockDim.x < n) products[blockIdx.y * n + column[k]] = sum[k];
}

// out[c, b] = change[b] . products[c, index[b]], and in the last column change[c] . pull.
// One warp per value.
extern "C" __global__ void couplings(const double* pulls, const long long* index,
                                     const double* change, const double* products, long long n,
                                     int m, double* out) {
    int count = gridDim.y, b = blockIdx.x, c = blockIdx.y;
    int set = b < count ? b : c;
    double sum = 0.0;
    for (int s = threadIdx.x; s < m; s += 32) {
        double move = change[set * (long long)m + s];
        if (move != 0.0) {
            long long sample = index[set * (long long)m + s];
            sum += move * (b < count ? products[c * n + sample] : pulls[sample]);
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[c * (long long)(count + 1) + b] = sum;
}

// beta += length * change, put on a bound that it reaches up to rounding.
extern "C" __global__ void move_beta(double* beta, const double* lower, const double* upper,
                                     const long long* index, const double* change,
                                     const double* lengths, int m, double snap) {
    for (int t = threadIdx.x; t < m; t += blockDim.x) {
        long long at = blockIdx.x * (long long)m + t, sample = index[at];
        if (sample < 0 || change[at] == 0.0) continue;
        double near = snap * (fabs(beta[sample]) + fabs(change[at]));
        double moved = beta[sample] + lengths[blockIdx.x] * change[at];
        if (moved <= lower[sample] + near) moved = lower[sample];
        if (moved >= upper[sample] - near) moved = upper[sample];
        beta[sample] = moved;
    }
}

extern "C" __global__ void move_residual(double* residual, const double* products,
                                         const double* lengths, int count, long long n) {
    long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= n) return;
    double sum = 0.0;
    for (int b = 0; b < count; ++b) sum += lengths[b] * products[b * n + t];
    residual[t] -= sum;
}

// sums[part, c] = sum over a part of the rows of coefficient * K[row, c], in double. One thread per
// column and part.
template <typename T>
__global__ void matrix_product(const T* K, long long n, const long long* rows,
                               const double* coefficients, long long count, double* sums) {
    long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (column >= n) return;
    long long first = count * blockIdx.y / gridDim.y, last = count * (blockIdx.y + 1) / gridDim.y;
    double sum = 0.0;
#pragma unroll 8
    for (long long j = first; j < last; ++j)
        sum += coefficients[j] * double(K[rows[j] * n + column]);
    sums[blockIdx.y * n + column] = sum;
}

// out = (K + ridge * I)[rows][:, columns] in double. One thread per value.
template <typename T>
__global__ void submatrix(const T* K, long long stride, const long long* rows,
                          const long long* columns, long long count, double ridge,
                          double* out) {
    long long at = blockIdx.y * (long long)blockDim.x + threadIdx.x;
    if (at >= count) return;
    long long row = rows[blockIdx.x], column = columns[at];
    out[blockIdx.x * count + at] = double(K[row * stride + column]) + (row == column ? ridge : 0.0);
}

// Ones at the places of unit columns, in a matrix of zeros.
extern "C" __global__ void unit_columns(const long long* places, long long count, double* out) {
    long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (column < count) out[places[column] * count + column] = 1.0;
}

// The key of a sample in the order of neighbours: the place of the landmark l that is nearest in
// feature space, where k(l, l) - 2 k(x, l) is least, and that as a fraction. A landmark per row.
template <typename T>
__global__ void nearest(const T* rows, long long n, const long long* landmarks,
                        const long long* places, int count, double* keys) {
    long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= n) return;
    double least = 0.0;
    int best = -1;
    for (int l = 0; l < count; ++l) {
        double away = double(rows[l * n + landmarks[l]]) - 2.0 * double(rows[l * n + t]);
        if (best < 0 || away < least) {
            least = away;
            best = l;
        }
    }
    keys[t] = double(places[best]) + 0.5 + 0.5 * least / (1.0 + fabs(least));
}

// K[places] = rows, and the columns likewise, since K is symmetric. A thread block of 32 × 8 has a
// tile of 32 × 32 values: both ways the threads of a warp write into one row of K.
template <typename T>
__global__ void replace(T* K, long long n, const long long* places, int count, const T* rows) {
    __shared__ T tile[32][33];
    long long column = blockIdx.x * 32LL + threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        int row = blockIdx.y * 32 + y;
        if (row >= count || column >= n) continue;
        T value = rows[row * n + column];
        tile[y][threadIdx.x] = value;
        K[places[row] * n + column] = value;
    }
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int y = threadIdx.y; y < 32; y += blockDim.y) {
        long long other = blockIdx.x * 32LL + y;
        if (row < count && other < n) K[other * n + places[row]] = tile[threadIdx.x][y];
    }
}
