// The compiled leaves of the GPU. Every result has one writer and a fixed order of
// summation: no atomics, so the same input gives the same bits on the same card.

// Kernel functions of an inner product and two squared norms; numbers as in samples.py.
enum { LINEAR = 0, POLY = 1, RBF = 2, SIGMOID = 3 };

// exp(x) in the precision of the second argument.
__device__ __forceinline__ float exponential(float x, float) { return __expf(x); }
__device__ __forceinline__ double exponential(double x, double) { return exp(x); }
__device__ __forceinline__ float exponential(double x, float) {
    return exp2f(float(x * 1.4426950408889634));
}

// A kernel value in the precision Out of an inner product and norms in the precision In.
template <typename Out, typename In>
__device__ __forceinline__ Out kernel_value(In product, In row_norm, In column_norm, int kind,
                                            In gamma, In coef0, int degree) {
    if (kind == RBF) {
        In distance = row_norm + column_norm - In(2) * product;
        return exponential(-gamma * (distance > In(0) ? distance : In(0)), Out());
    }
    if (kind == LINEAR) return Out(product);
    In base = gamma * product + coef0;
    if (kind == SIGMOID) return Out(tanh(base));
    In power = In(1);
    for (int k = degree; k > 0; k >>= 1) {  // by repeated squaring
        if (k & 1) power *= base;
        base *= base;
    }
    return Out(power);
}

// Inner products become kernel values; out may be the same array. One thread per value. Values in
// single precision are best made of products in double: distances of neighbours are differences of
// large numbers.
template <typename In, typename Out>
__global__ void kernel_values(const In* products, const In* row_norms, const In* column_norms,
                              long long rows, long long columns, int kind, In gamma, In coef0,
                              int degree, Out* out) {
    long long column = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (column >= columns) return;
    In norm = column_norms[column];
    for (long long row = blockIdx.y; row < rows; row += gridDim.y)
        out[row * columns + column] =
            kernel_value<Out>(products[row * columns + column], row_norms[row], norm, kind, gamma,
                              coef0, degree);
}

template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// The squared norm of every row of X. One warp per row.
extern "C" __global__ void row_norms(const double* X, long long rows, long long columns,
                                     double* norms) {
    int lane = threadIdx.x & 31;
    long long row = (blockIdx.x * (long long)blockDim.x + threadIdx.x) >> 5;
    if (row >= rows) return;
    double sum = 0.0;
    for (long long j = lane; j < columns; j += 32)
        sum += X[row * columns + j] * X[row * columns + j];
    sum = warp_sum(sum);
    if (lane == 0) norms[row] = sum;
}

// out[segment, row] = sum of coefficient * kernel value over the columns of a segment, from a
// tile of inner products, which is read once and never written. One warp per row and segment.
template <typename T>
__global__ void segment_sums(const T* tile, const T* row_norms, const T* column_norms,
                             const T* coefficients, const int* offsets, int rows, int columns,
                             int segments, int kind, T gamma, T coef0, int degree, double* out,
                             long long out_stride) {
    int lane = threadIdx.x & 31;
    long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) >> 5;
    if (warp >= (long long)rows * segments) return;
    int row = warp / segments, segment = warp % segments;
    const T* products = tile + (long long)row * columns;
    T norm = row_norms[row], sum = T(0);
    for (int j = offsets[segment] + lane; j < offsets[segment + 1]; j += 32)
        sum += coefficients[j] * kernel_value<T>(products[j], norm, column_norms[j], kind, gamma,
                                                 coef0, degree);
    sum = warp_sum(sum);
    if (lane == 0) out[segment * out_stride + row] = sum;
}
