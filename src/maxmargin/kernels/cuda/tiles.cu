// Kernel values of dense samples by the units that multiply small matrices in double, without a
// pass through memory between inner products and kernel values. Compiled together with kernels.cu,
// for one kernel function (KIND) at a time. It needs compute capability 9.0.
//
// A thread block has TILE_ROWS × TILE_COLUMNS values, and the samples of both sides in shared
// memory, whole: `depth` is their number of features, rounded up to a multiple of 8, and `stride`
// the distance of two samples, which is 4 beyond a multiple of 16 so that a warp reads from all
// banks.
const int TILE_ROWS = 128, TILE_COLUMNS = 64, TILE_THREADS = 256;
// Values of a warp: 2 × 4 products of 16 × 8 values each, 4 of every product in a thread.
const int DOWN = 2, ACROSS = 4;

// sum += A B for 16 × 8 times 8 × 8. With g = lane / 4 and t = lane % 4, a thread has A[g][t],
// A[g + 8][t], A[g][t + 4], A[g + 8][t + 4]; B[t][g], B[t + 4][g]; and of the sum the columns 2t
// and 2t + 1 of row g, then those of row g + 8.
__device__ __forceinline__ void multiply_add(double (&sum)[4], const double (&a)[4], double b0,
                                             double b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b0), "d"(b1));
}

// Begins to copy `count` samples into shared memory, a warp per sample, with zeros behind the last
// sample and feature; `wait_for_copies` ends it. A warp reads the numbers of its samples first, so
// that all copies are on their way at the same time.
__device__ __forceinline__ void begin_copy(const double* X, const long long* index, long long first,
                                           long long end, int features, int depth, int stride,
                                           int count, double* tile) {
    const int warps = TILE_THREADS / 32;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    long long mine = first + warp + lane * warps;
    bool known = lane * warps < count && mine < end;
    long long number = known ? index[mine] : -1;
    for (int s = 0; s * warps < count; ++s) {
        long long sample = __shfl_sync(0xffffffffu, number, s);
        const double* from = X + (sample < 0 ? 0 : sample * features);
        double* to = tile + (warp + s * warps) * stride;
        for (int k = lane; k < depth; k += 32) {
            bool used = sample >= 0 && k < features;
            unsigned place = (unsigned)__cvta_generic_to_shared(to + k);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(place),
                         "l"(used ? from + k : X), "r"(used ? 8 : 0));
        }
    }
}

__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

// Inner products of 32 rows and 32 columns of a tile, those of the warp.
__device__ __forceinline__ void inner_products(const double* rows, const double* columns,
                                               int depth, int stride,
                                               double (&sum)[DOWN][ACROSS][4]) {
    int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int i = 0; i < DOWN; ++i)
#pragma unroll
        for (int j = 0; j < ACROSS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) sum[i][j][e] = 0.0;
    rows += g * stride + t;
    columns += g * stride + t;
    for (int k = 0; k < depth; k += 8) {
        double a[DOWN][4];
#pragma unroll
        for (int i = 0; i < DOWN; ++i) {
            const double* from = rows + i * 16 * stride + k;
            a[i][0] = from[0];
            a[i][1] = from[8 * stride];
            a[i][2] = from[4];
            a[i][3] = from[8 * stride + 4];
        }
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
            double b0 = columns[j * 8 * stride + k], b1 = columns[j * 8 * stride + k + 4];
#pragma unroll
            for (int i = 0; i < DOWN; ++i) multiply_add(sum[i][j], a[i], b0, b1);
        }
    }
}

// out[segment, row] = sum over a segment of the columns of coefficient * kernel value.
template <int KIND>
__global__ void __launch_bounds__(TILE_THREADS, 2)
    tile_sums(const double* X, const double* row_norms, const long long* rows, long long n_rows,
              const double* Y, const double* column_norms, const long long* columns,
              long long n_columns, long long per_segment, int features, int depth, int stride,
              double gamma, double coef0, int degree, const double* coefficients, double* out) {
    extern __shared__ double shared[];
    double* across = shared + TILE_ROWS * stride;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    int down = (warp & 3) * 32, right = (warp >> 2) * 32;
    long long first_row = blockIdx.x * (long long)TILE_ROWS;
    long long first = blockIdx.y * per_segment;
    long long end = first + per_segment < n_columns ? first + per_segment : n_columns;
    begin_copy(X, rows, first_row, n_rows, features, depth, stride, TILE_ROWS, shared);
    double norm[2 * DOWN], total[2 * DOWN];
#pragma unroll
    for (int r = 0; r < 2 * DOWN; ++r) {
        long long row = first_row + down + r * 8 + g;
        norm[r] = row < n_rows ? row_norms[rows[row]] : 0.0;
        total[r] = 0.0;
    }
    for (long long at = first; at < end; at += TILE_COLUMNS) {
        __syncthreads();  // the last tile has been read
        begin_copy(Y, columns, at, end, features, depth, stride, TILE_COLUMNS, across);
        wait_for_copies();
        double sum[DOWN][ACROSS][4];
        inner_products(shared + down * stride, across + right * stride, depth, stride, sum);
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                long long column = at + right + j * 8 + 2 * t + e;
                if (column >= end) continue;
                double coefficient = coefficients[column];
                double column_norm = column_norms[columns[column]];
#pragma unroll
                for (int r = 0; r < 2 * DOWN; ++r)
                    total[r] += coefficient *
                                kernel_value<double>(sum[r / 2][j][2 * (r % 2) + e], norm[r],
                                                     column_norm, KIND, gamma, coef0, degree);
            }
        }
    }
    __syncthreads();  // from here on shared memory has the sums of the two halves of the columns
#pragma unroll
    for (int r = 0; r < 2 * DOWN; ++r) {
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
        if (t == 0) shared[(warp >> 2) * TILE_ROWS + down + r * 8 + g] = total[r];
    }
    __syncthreads();
    int own = threadIdx.x;
    if (own < TILE_ROWS && first_row + own < n_rows)
        out[blockIdx.y * n_rows + first_row + own] = shared[own] + shared[TILE_ROWS + own];
}

// out[row, column] = kernel value. Where the matrix is symmetric (rows and columns are the same
// samples), only the part above the diagonal is computed, and written twice.
template <int KIND, typename Out>
__global__ void __launch_bounds__(TILE_THREADS, 2)
    tile_values(const double* X, const double* row_norms, const long long* rows, long long n_rows,
                const double* Y, const double* column_norms, const long long* columns,
                long long n_columns, int symmetric, int features, int depth, int stride,
                double gamma, double coef0, int degree, Out* out) {
    extern __shared__ double shared[];
    double* across = shared + TILE_ROWS * stride;
    long long first_row = blockIdx.y * (long long)TILE_ROWS;
    long long first_column = blockIdx.x * (long long)TILE_COLUMNS;
    if (symmetric && first_column + TILE_COLUMNS <= first_row) return;
    begin_copy(X, rows, first_row, n_rows, features, depth, stride, TILE_ROWS, shared);
    begin_copy(Y, columns, first_column, n_columns, features, depth, stride, TILE_COLUMNS, across);
    wait_for_copies();
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
    int down = (warp & 3) * 32, right = (warp >> 2) * 32;
    double sum[DOWN][ACROSS][4];
    inner_products(shared + down * stride, across + right * stride, depth, stride, sum);
#pragma unroll
    for (int r = 0; r < 2 * DOWN; ++r) {
        long long row = first_row + down + r * 8 + g;
        if (row >= n_rows) continue;
        double row_norm = row_norms[rows[row]];
#pragma unroll
        for (int j = 0; j < ACROSS; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                long long column = first_column + right + j * 8 + 2 * t + e;
                if (column >= n_columns || (symmetric && column < row)) continue;
                Out value = kernel_value<Out>(sum[r / 2][j][2 * (r % 2) + e], row_norm,
                                              column_norms[columns[column]], KIND, gamma, coef0,
                                              degree);
                out[row * n_columns + column] = value;
                if (symmetric && column > row) out[column * n_columns + row] = value;
            }
        }
    }
}
