// SMO steps within working sets, a thread block for each. Compiled together with kernels.cu, whose
// promises hold here too.

// Rows of a block that a thread block copies: its threads read the numbers of their columns once,
// and have as many loads under way. GATHERED in cupy_backend.py.
const int GATHERED = 8;

// blocks[b] = K[index[b]][:, index[b]] for working sets of m samples, with zeros for padding.
template <typename T>
__global__ void gather_blocks(const T* K, long long n, const long long* index, int m, T* blocks) {
    const long long* members = index + blockIdx.y * (long long)m;
    int first = blockIdx.x * GATHERED;
    T* out = blocks + (blockIdx.y * (long long)m + first) * m;
    const T* rows[GATHERED];
#pragma unroll
    for (int r = 0; r < GATHERED; ++r) {
        long long row = first + r < m ? members[first + r] : -1;
        rows[r] = row < 0 ? nullptr : K + row * n;
    }
    for (int t = threadIdx.x; t < m; t += blockDim.x) {
        long long column = members[t];
#pragma unroll
        for (int r = 0; r < GATHERED; ++r) {
            T value = rows[r] && column >= 0 ? rows[r][column] : T(0);
            if (first + r < m) out[r * (long long)m + t] = value;
        }
    }
}

// The largest of one float per thread, and the place that it has (of equals the first), among the
// 32 threads of a warp. Places grow with the number of the thread.
__device__ __forceinline__ void warp_argmax(float& value, int& place) {
#if __CUDA_ARCH__ >= 800
    // As an integer of the same order: the hardware then finds the maximum in one instruction.
    unsigned bits = __float_as_uint(value);
    unsigned key = bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
    unsigned best = __reduce_max_sync(0xffffffffu, key);
    int winner = __ffs(__ballot_sync(0xffffffffu, key == best)) - 1;
    place = __shfl_sync(0xffffffffu, place, winner);
    value = __shfl_sync(0xffffffffu, value, winner);
#else
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, value, offset);
        int other_place = __shfl_xor_sync(0xffffffffu, place, offset);
        if (other > value || (other == value && other_place < place)) {
            value = other;
            place = other_place;
        }
    }
#endif
}

__device__ __forceinline__ float warp_max(float value) {
    int place = 0;
    warp_argmax(value, place);
    return value;
}

// Samples of a working set that one thread has, side by side in a row of K.
const int OWN = 4;
template <typename T>
struct alignas(16) Pack {
    T of[OWN];
};

// What the best sample of a warp tells the others: by what it was chosen, its place, how far it may
// move, its residual or the length of the step, and its diagonal value.
template <typename T>
struct Offer {
    double room;
    T amount, diagonal;
    float value;
    int place;
};

// Pair steps of SMO (Fan, Chen and Lin 2005, second-order selection) on many working sets: one
// thread block per set, OWN samples per thread. Everything about a sample lives in registers, K of
// the set in the second-level cache of the card. Residuals are kept less the intercept, so that
// floats can choose the pair: those of free samples are small numbers. Two barriers a step: the
// best of each warp is offered in shared memory, and every warp finds the best of these.
template <typename T>
__global__ void __launch_bounds__(512)
    pair_steps(const T* blocks, const long long* index, const double* betas,
               const double* pulls, const double* lowers, const double* uppers, int m,
               float relative, float least_tolerance, int max_steps, double* change, int* taken) {
    __shared__ Offer<T> growing[16], shrinking[16];
    __shared__ float lows[16];
    const float infinity = 1e30f;
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, warps = blockDim.x >> 5;
    int source = lane < warps ? lane : 0;
    bool inside = t * OWN < m;
    const T* K = blocks + (long long)blockIdx.x * m * m;
    const Pack<T>* rows = (const Pack<T>*)K + t;  // the row of sample s begins at s * m / OWN
    long long first = (long long)blockIdx.x * m + t * OWN;
    double beta[OWN], lower[OWN], upper[OWN];
    T residual[OWN], diagonal[OWN];
#pragma unroll
    for (int p = 0; p < OWN; ++p) {
        long long sample = inside ? index[first + p] : -1;
        bool used = sample >= 0;
        beta[p] = used ? betas[sample] : 0.0;
        lower[p] = used ? lowers[sample] : 0.0;
        upper[p] = used ? uppers[sample] : 0.0;
        residual[p] = used ? T(pulls[sample]) : T(0);
        diagonal[p] = used ? K[(long long)(t * OWN + p) * m + t * OWN + p] : T(0);
    }
    float tolerance = 0.0f;
    int step = 0;
    for (; step < max_steps; ++step) {
        // i: the highest residual that can grow; the lowest that can shrink comes along.
        float highest = -infinity, lowest = infinity;
        Offer<T> offer = {0.0, T(0), T(0), 0.0f, t * OWN};
#pragma unroll
        for (int p = 0; p < OWN; ++p) {
            float value = float(residual[p]);
            if (beta[p] < upper[p] && value > highest) {
                highest = value;
                offer = Offer<T>{upper[p] - beta[p], residual[p], diagonal[p], value, t * OWN + p};
            }
            if (beta[p] > lower[p] && value < lowest) lowest = value;
        }
        lowest = -warp_max(-lowest);
        int i = offer.place;
        offer.value = highest;
        warp_argmax(highest, i);
        if (i == offer.place) growing[warp] = offer;
        if (lane == 0) lows[warp] = lowest;
        __syncthreads();
        highest = growing[source].value;
        i = growing[source].place;
        lowest = -warp_max(-lows[source]);
        warp_argmax(highest, i);
        float violation = highest - lowest;
        if (step == 0) tolerance = fmaxf(relative * violation, least_tolerance);
        if (!(violation > tolerance) || highest <= -infinity || lowest >= infinity) break;
        const Offer<T> up = growing[i / (OWN * 32)];  // a copy: the next step overwrites it
        // j: the partner with which the objective gains most.
        Pack<T> row_i;
        if (inside) row_i = rows[(long long)i * (m / OWN)];
        float best = 0.0f;
        T chosen_curvature = T(1);
        offer = Offer<T>{0.0, T(0), T(0), 0.0f, t * OWN};
#pragma unroll
        for (int p = 0; p < OWN; ++p) {
            if (!inside || !(beta[p] > lower[p])) continue;
            T difference = up.amount - residual[p];
            T curvature = up.diagonal + diagonal[p] - T(2) * row_i.of[p];
            curvature = curvature > T(1e-12) ? curvature : T(1e-12);
            float gain = float(difference) * (float(difference) / float(curvature));
            if (difference > T(0) && gain > best) {
                best = gain;
                chosen_curvature = curvature;
                offer = Offer<T>{beta[p] - lower[p], difference, T(0), gain, t * OWN + p};
            }
        }
        int j = offer.place;
        warp_argmax(best, j);
        if (j == offer.place) {
            offer.amount /= chosen_curvature;
            shrinking[warp] = offer;
        }
        __syncthreads();
        best = shrinking[source].value;
        j = shrinking[source].place;
        warp_argmax(best, j);
        if (!(best > 0.0f)) break;
        const Offer<T>& down = shrinking[j / (OWN * 32)];
        double by = fmin(double(down.amount), fmin(up.room, down.room));
        bool all_up = by == up.room, all_down = by == down.room;
        if (inside) {
            Pack<T> row_j = rows[(long long)j * (m / OWN)];
#pragma unroll
            for (int p = 0; p < OWN; ++p) {
                residual[p] -= T(by) * (row_i.of[p] - row_j.of[p]);
                if (t * OWN + p == i) beta[p] = all_up ? upper[p] : beta[p] + by;
                if (t * OWN + p == j) beta[p] = all_down ? lower[p] : beta[p] - by;
            }
        }
    }
    if (t == 0) taken[blockIdx.x] = step;
#pragma unroll
    for (int p = 0; p < OWN; ++p) {
        if (!inside) break;
        long long sample = index[first + p];
        change[first + p] = sample >= 0 ? beta[p] - betas[sample] : 0.0;
    }
}
