// The compiled leaves of the GPU. Every result has one writer and a fixed order of
// summation: no atomics, so the same input gives the same bits on the same card.

// Kernel functions of an inner product and two squared norms; numbers as in samples.py.
enum { LINEAR = 0, POLY = 1, RBF = 2, SIGMOID = 3 };

__device__ __forceinline__ float exponential(float x) { return __expf(x); }
__device__ __forceinline__ double exponential(double x) { return exp(x); }

template <typename T>
__device__ __forceinline__ T kernel_value(T product, T row_norm, T column_norm, int kind,
                                          T gamma, T coef0, int degree) {
    if (kind == RBF) {
        T distance = row_norm + column_norm - T(2) * product;
        return exponential(-gamma * (distance > T(0) ? distance : T(0)));
    }
    if (kind == LINEAR) return product;
    T base = gamma * product + coef0;
    if (kind == SIGMOID) return tanh(base);
    T power = T(1);
    for (int k = degree; k > 0; k >>= 1) {  // by repeated squaring
        if (k & 1) power *= base;
        base *= base;
    }
    return power;
}

// Inner products become kernel values, in place. One thread per value.
template <typename T>
__global__ void apply_kernel(T* tile, const T* row_norms, const T* column_norms,
                             long long rows, long long columns, int kind, T gamma, T coef0,
                             int degree) {
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (at >= rows * columns) return;
    long long row = at / columns;
    tile[at] = kernel_value(tile[at], row_norms[row], column_norms[at - row * columns], kind,
                            gamma, coef0, degree);
}

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// out[segment, row] = sum of coefficient * kernel value over the columns of a segment, from a
// tile of inner products, which is read once and never written. One warp per row and segment.
template <typename T>
__global__ void segment_sums(const T* tile, const T* row_norms, const T* column_norms,
                             const T* coefficients, const int* offsets, int rows, int columns,
                             int segments, int kind, T gamma, T coef0, int degree, T* out,
                             long long out_stride) {
    int lane = threadIdx.x & 31;
    long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) >> 5;
    if (warp >= (long long)rows * segments) return;
    int row = warp / segments, segment = warp % segments;
    const T* products = tile + (long long)row * columns;
    T norm = row_norms[row], sum = T(0);
    for (int j = offsets[segment] + lane; j < offsets[segment + 1]; j += 32)
        sum += coefficients[j] * kernel_value(products[j], norm, column_norms[j], kind, gamma,
                                              coef0, degree);
    sum = warp_sum(sum);
    if (lane == 0) out[segment * out_stride + row] = sum;
}

// Sweeps, on a kernel matrix K in memory.

// Per thread block: the highest residual of samples that can grow, the lowest of samples that can
// shrink, sum and number of the free ones. out has one column per thread block.
extern "C" __global__ void extremes(const double* beta, const double* residual,
                                    const double* lower, const double* upper, long long n,
                                    double* out) {
    const double infinity = __longlong_as_double(0x7ff0000000000000LL);
    double highest = -infinity, lowest = infinity, total = 0, free = 0;
    for (long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x; t < n;
         t += (long long)gridDim.x * blockDim.x) {
        bool can_grow = beta[t] < upper[t], can_shrink = beta[t] > lower[t];
        if (can_grow) highest = fmax(highest, residual[t]);
        if (can_shrink) lowest = fmin(lowest, residual[t]);
        if (can_grow && can_shrink) {
            total += residual[t];
            free += 1;
        }
    }
    __shared__ double shared[4][32];
    for (int offset = 16; offset > 0; offset >>= 1) {
        highest = fmax(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
        lowest = fmin(lowest, __shfl_xor_sync(0xffffffffu, lowest, offset));
        total += __shfl_xor_sync(0xffffffffu, total, offset);
        free += __shfl_xor_sync(0xffffffffu, free, offset);
    }
    int warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    if ((threadIdx.x & 31) == 0) {
        shared[0][warp] = highest;
        shared[1][warp] = lowest;
        shared[2][warp] = total;
        shared[3][warp] = free;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < warps; ++w) {
            highest = fmax(highest, shared[0][w]);
            lowest = fmin(lowest, shared[1][w]);
            total += shared[2][w];
            free += shared[3][w];
        }
        double values[4] = {highest, lowest, total, free};
        for (int k = 0; k < 4; ++k) out[k * gridDim.x + blockIdx.x] = values[k];
    }
}

// Which samples enter a sweep, in the order of neighbours: flags[0] of those that should grow,
// flags[1] of those that should shrink; score is their violation.
extern "C" __global__ void mark(const double* beta, const double* residual, const double* lower,
                                const double* upper, const long long* order, long long n,
                                double intercept, double threshold, double bonus, double spread,
                                double* score, int* flags) {
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (at >= n) return;
    long long t = order[at];
    bool can_grow = beta[t] < upper[t], can_shrink = beta[t] > lower[t];
    double pull = residual[t] - intercept, size = fabs(pull);
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
// length, moved by `shift` of a piece; ends holds the running sums of the flags.
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
        long long position = (ends[side * n + at] - 1 - by + m) % m;
        long long block = position * count / m;
        long long slot = first + position - (block * m + count - 1) / count;
        if (slot < size) index[block * size + slot] = order[at];
    }
}

// blocks[b] = K[index[b]][:, index[b]], with zeros for padding. One thread block per row.
template <typename T>
__global__ void gather_blocks(const T* K, long long n, const long long* index, T* blocks) {
    int m = blockDim.x;
    long long row = index[blockIdx.y * (long long)m + blockIdx.x];
    long long column = index[blockIdx.y * (long long)m + threadIdx.x];
    blocks[(blockIdx.y * (long long)m + blockIdx.x) * m + threadIdx.x] =
        row < 0 || column < 0 ? T(0) : K[row * n + column];
}

// The largest of one value per thread, and the thread that has it (of equals the first), among
// the 32 threads of a warp.
template <typename T>
__device__ __forceinline__ void warp_argmax(T& value, int& place) {
    for (int offset = 16; offset > 0; offset >>= 1) {
        T other = __shfl_xor_sync(0xffffffffu, value, offset);
        int other_place = __shfl_xor_sync(0xffffffffu, place, offset);
        if (other > value || (other == value && other_place < place)) {
            value = other;
            place = other_place;
        }
    }
}

#if __CUDA_ARCH__ >= 800
// Floats as integers of the same order: the hardware then finds the maximum in one instruction.
__device__ __forceinline__ void warp_argmax(float& value, int& place) {
    unsigned bits = __float_as_uint(value);
    unsigned key = bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
    unsigned best = __reduce_max_sync(0xffffffffu, key);
    int winner = __ffs(__ballot_sync(0xffffffffu, key == best)) - 1;
    place = __shfl_sync(0xffffffffu, place, winner);
    value = __shfl_sync(0xffffffffu, value, winner);
}
#endif

template <typename T>
__device__ __forceinline__ T warp_max(T value) {
    int place = 0;
    warp_argmax(value, place);
    return value;
}

// Pair steps of SMO (Fan, Chen and Lin 2005, second-order selection) on many working sets: one
// thread block per set, one thread per sample. The residual lives in a register, beta and its
// bounds in shared memory, K of the set in the second-level cache of the card.
template <typename T>
__global__ void pair_steps(const T* blocks, const long long* index, const double* betas,
                           const double* residuals, const double* lowers, const double* uppers,
                           double relative, double least_tolerance, int max_steps,
                           double* change) {
    extern __shared__ double shared[];
    const T infinity = T(1e30);
    int m = blockDim.x, t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = m >> 5;
    double *beta = shared, *lower = beta + m, *upper = lower + m;
    T* diagonal = (T*)(upper + m);
    T* tops = diagonal + m;             // per warp: the largest value that is sought ...
    T* lows = tops + 64;                // ... the lowest residual that can shrink ...
    T* lengths = lows + 64;             // ... the step to the winner; two halves each
    int* places = (int*)(lengths + 64);  // ... and the thread that has the largest value
    const T* K = blocks + (long long)blockIdx.x * m * m;
    long long at = (long long)blockIdx.x * m + t, sample = index[at];
    bool used = sample >= 0;
    double old_beta = used ? betas[sample] : 0.0;
    beta[t] = old_beta;
    lower[t] = used ? lowers[sample] : 0.0;
    upper[t] = used ? uppers[sample] : 0.0;
    T own_diagonal = K[(long long)t * m + t];
    diagonal[t] = own_diagonal;
    T residual = used ? T(residuals[sample]) : T(0), tolerance = T(0);
    bool can_grow = beta[t] < upper[t], can_shrink = beta[t] > lower[t];
    for (int step = 0; step < max_steps; ++step) {
        // i: the highest residual that can grow; the lowest that can shrink comes along.
        T highest = can_grow ? residual : -infinity;
        T lowest = -warp_max(can_shrink ? -residual : -infinity);
        int i = t;
        warp_argmax(highest, i);
        if (lane == 0) {
            tops[warp] = highest;
            lows[warp] = lowest;
            places[warp] = i;
        }
        __syncthreads();
        int source = lane < warps ? lane : 0;
        highest = tops[source];
        i = places[source];
        lowest = -warp_max(-lows[source]);
        warp_argmax(highest, i);
        T violation = highest - lowest;
        if (step == 0) tolerance = T(fmax(relative * double(violation), least_tolerance));
        if (!(violation > tolerance) || highest <= -infinity || lowest >= infinity) break;
        // j: the partner with which the objective gains most.
        T row_i = K[(long long)i * m + t];
        T difference = can_shrink ? highest - residual : T(0);
        T curvature = diagonal[i] + own_diagonal - T(2) * row_i;
        curvature = curvature > T(1e-12) ? curvature : T(1e-12);
        T own_length = difference / curvature;
        T gain = difference > T(0) ? difference * own_length : T(0);
        int j = t;
        T best = gain;
        warp_argmax(best, j);
        if (t == j) {
            tops[32 + warp] = best;
            places[32 + warp] = j;
            lengths[warp] = own_length;
        }
        __syncthreads();
        best = tops[32 + source];
        j = places[32 + source];
        warp_argmax(best, j);
        if (!(best > T(0))) break;
        double up = upper[i] - beta[i], down = beta[j] - lower[j];
        double length = fmin(double(lengths[j >> 5]), fmin(up, down));
        residual -= T(length) * (row_i - K[(long long)j * m + t]);
        __syncthreads();  // everybody has read the old beta
        if (t == i) beta[t] = length == up ? upper[t] : beta[t] + length;
        if (t == j) beta[t] = length == down ? lower[t] : beta[t] - length;
        if (t == i || t == j) {
            can_grow = beta[t] < upper[t];
            can_shrink = beta[t] > lower[t];
        }
    }
    change[at] = used ? beta[t] - old_beta : 0.0;
}

// products[b, c] = sum over the samples s of working set b of change * K[s, c]. One thread per
// column; whether a sample has moved is the same question for all threads.
template <typename T>
__global__ void block_products(const T* K, long long n, const long long* index,
                               const double* change, int m, T* products) {
    long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (column >= n) return;
    const long long* members = index + blockIdx.y * (long long)m;
    const double* moves = change + blockIdx.y * (long long)m;
    T sum = T(0);
#pragma unroll 8
    for (int s = 0; s < m; ++s) {
        double move = moves[s];
        if (move != 0.0) sum += T(move) * K[members[s] * n + column];
    }
    products[blockIdx.y * n + column] = sum;
}

// out[c, b] = change[b] . products[c, index[b]], and in the last column change[c] . residual.
// One warp per value.
template <typename T>
__global__ void couplings(const double* residual, const long long* index, const double* change,
                          const T* products, long long n, int m, double* out) {
    int count = gridDim.y, b = blockIdx.x, c = blockIdx.y;
    int set = b < count ? b : c;
    double sum = 0.0;
    for (int s = threadIdx.x; s < m; s += 32) {
        double move = change[set * (long long)m + s];
        if (move != 0.0) {
            long long sample = index[set * (long long)m + s];
            sum += move * (b < count ? double(products[c * n + sample]) : residual[sample]);
        }
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[c * (long long)(count + 1) + b] = sum;
}

// beta += length * change, put on a bound that it reaches up to rounding.
extern "C" __global__ void move_beta(double* beta, const double* lower, const double* upper,
                                     const long long* index, const double* change,
                                     const double* lengths, double snap) {
    long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x, sample = index[at];
    if (sample < 0 || change[at] == 0.0) return;
    double near = snap * (fabs(beta[sample]) + fabs(change[at]));
    double moved = beta[sample] + lengths[blockIdx.x] * change[at];
    if (moved <= lower[sample] + near) moved = lower[sample];
    if (moved >= upper[sample] - near) moved = upper[sample];
    beta[sample] = moved;
}

template <typename T>
__global__ void move_residual(double* residual, const T* products, const double* lengths,
                              int count, long long n) {
    long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= n) return;
    double sum = 0.0;
    for (int b = 0; b < count; ++b) sum += lengths[b] * double(products[b * n + t]);
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
// feature space, where k(l, l) - 2 k(x, l) is least, and the distance from it as a fraction.
template <typename T>
__global__ void nearest(const T* K, long long n, const long long* landmarks,
                        const long long* places, int count, double* keys) {
    long long t = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (t >= n) return;
    double least = 0.0;
    int best = -1;
    for (int l = 0; l < count; ++l) {
        const T* row = K + landmarks[l] * n;
        double away = double(row[landmarks[l]]) - 2.0 * double(row[t]);
        if (best < 0 || away < least) {
            least = away;
            best = l;
        }
    }
    double distance = least + double(K[t * n + t]);
    keys[t] = double(places[best]) + distance / (1.0 + fabs(distance));
}
