// libcublasLt.so for a machine without a GPU: products in plain loops, as work of a stream.
//
// What is asked for is checked as NVIDIA's documentation of cuBLASLt tells it. Of the three algorithms that it names the
// first is reported as not usable, and the last works only for the count of rows that it was named for.
// Refuses to know: kernels.

#include "call.h"
// Hides what is named after it.
#include "../emulator/emulator.h"

using namespace fake;

namespace {

/// cublasStatus_t.
enum Status : int { SUCCESS = 0, INVALID = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
/// cudaDataType.
enum Type : int64_t { R_32F = 0, R_16F = 2, R_16BF = 14 };
constexpr int COMPUTE_32F = 68, TRANSA = 3, OPERATION_T = 1, WORKSPACE_BYTES = 1;

enum Kind : int64_t { HANDLE, PRODUCT, LAYOUT, PREFERENCE };
/// What is described: layouts have type, rows, columns and leading dimension, a product whether its left side is
/// transposed, a preference the bytes of workspace. The last is its kind.
using Description = std::array<int64_t, 5>;

struct Algorithm {
    int64_t which, n, room[6];
};
struct Found {
    Algorithm algorithm;
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};
static_assert(sizeof(Algorithm) == 64 && sizeof(Found) == 96);

/// Products beyond so many steps are not computed: a rate is measured by them, and nobody reads what they give.
constexpr double MOST_STEPS = 1e11;

/// One call: alone, counted, and with what it would give at once.
struct BlasCall {
    explicit BlasCall(const char *name) : call(name, BOUND) {}
    Status status() const { return call.code == OK ? SUCCESS : EXECUTION_FAILED; }
    Status refuse(const std::string &what, Status with = INVALID) {
        call.wrong(what, INVALID_VALUE);
        return with;
    }
    /// Null where it is none of that kind.
    std::shared_ptr<Description> find(Handle handle, Kind kind) const {
        const auto found = call.gpu.descriptions.find(handle);
        return found && found->back() == kind ? found : nullptr;
    }

    Call call;
};

Status made(const char *name, Handle *handle, Kind kind, Description description = {}) {
    BlasCall blas(name);
    if (blas.status() == SUCCESS) {
        description.back() = kind;
        *handle = blas.call.gpu.descriptions.add(std::make_shared<Description>(description));
    }
    return blas.status();
}

Status destroyed(const char *name, Handle handle, Kind kind) {
    BlasCall blas(name);
    if (!blas.find(handle, kind)) {
        return blas.refuse("there is none such");
    }
    blas.call.gpu.descriptions.remove(handle);
    return blas.status();
}

Status set(const char *name, Handle handle, Kind kind, bool known, int64_t value) {
    BlasCall blas(name);
    const auto description = blas.find(handle, kind);
    if (!description || !known) {
        return blas.refuse("an attribute that is not known here");
    }
    (*description)[0] = value;
    return blas.status();
}

/// out[m, n] = left[k, m]ᵀ · right[k, n], by columns.
struct Product {
    int64_t m, n, k, type;
    const void *left, *right;
    float *out;
    bool backwards;
};

/// Null where there is no such product.
std::shared_ptr<Product> shape(const BlasCall &blas, Handle operation, Handle left, Handle right, Handle out) {
    const auto kind = blas.find(operation, PRODUCT), a = blas.find(left, LAYOUT), b = blas.find(right, LAYOUT),
               d = blas.find(out, LAYOUT);
    if (!kind || !a || !b || !d) {
        return nullptr;
    }
    const auto [type, k, m, left_step, of_a] = *a;
    const auto [right_type, right_k, n, right_step, of_b] = *b;
    const auto [out_type, rows, columns, out_step, of_d] = *d;
    const bool fits = (*kind)[0] == OPERATION_T && right_k == k && rows == m && columns == n && left_step == k &&
                      right_step == k && out_step == m && right_type == type && out_type == R_32F;
    return fits ? std::make_shared<Product>(Product{m, n, k, type, nullptr, nullptr, nullptr, false}) : nullptr;
}

size_t bytes_of(int64_t type) { return type == R_32F ? 4 : 2; }

std::vector<float> widened(const void *from, size_t count, int64_t type) {
    std::vector<float> numbers(count);
    const auto *halves = static_cast<const unsigned short *>(from);
    for (size_t at = 0; at < count; at++) {
        numbers[at] = type == R_32F    ? static_cast<const float *>(from)[at]
                      : type == R_16BF ? __uint_as_float(unsigned(halves[at]) << 16)
                                       : half_to_float(halves[at]);
    }
    return numbers;
}

Code compute(const Product &product) {
    const auto [m, n, k, type, left, right, out, backwards] = product;
    if (double(m) * double(n) * double(k) > MOST_STEPS) {
        return OK;
    }
    const std::vector<float> weight = widened(left, size_t(m * k), type), x = widened(right, size_t(n * k), type);
    for (int64_t column = 0; column < n; column++) {
        for (int64_t row = 0; row < m; row++) {
            float sum = 0.0f;
            for (int64_t step = 0; step < k; step++) {
                const int64_t at = backwards ? k - 1 - step : step;
                sum += weight[size_t(row * k + at)] * x[size_t(column * k + at)];
            }
            out[column * m + row] = sum;
        }
    }
    return OK;
}

} // namespace

API size_t cublasLtGetVersion() { return size_t(Gpu::the().version) / 10 * 100; }

API int cublasLtCreate(Handle *handle) { return made("cublasLtCreate", handle, HANDLE); }
API int cublasLtDestroy(Handle handle) { return destroyed("cublasLtDestroy", handle, HANDLE); }

API int cublasLtMatmulDescCreate(Handle *handle, int compute, int scale) {
    if (compute != COMPUTE_32F || scale != R_32F) {
        return NOT_SUPPORTED;
    }
    return made("cublasLtMatmulDescCreate", handle, PRODUCT);
}
API int cublasLtMatmulDescDestroy(Handle handle) { return destroyed("cublasLtMatmulDescDestroy", handle, PRODUCT); }
API int cublasLtMatmulDescSetAttribute(Handle handle, int attribute, const void *value, size_t bytes) {
    const bool known = attribute == TRANSA && bytes == sizeof(int);
    return set("cublasLtMatmulDescSetAttribute", handle, PRODUCT, known, *static_cast<const int *>(value));
}

API int cublasLtMatrixLayoutCreate(Handle *handle, int type, uint64_t rows, uint64_t columns, int64_t step) {
    return made("cublasLtMatrixLayoutCreate", handle, LAYOUT, {type, int64_t(rows), int64_t(columns), step, 0});
}
API int cublasLtMatrixLayoutDestroy(Handle handle) { return destroyed("cublasLtMatrixLayoutDestroy", handle, LAYOUT); }

API int cublasLtMatmulPreferenceCreate(Handle *handle) {
    return made("cublasLtMatmulPreferenceCreate", handle, PREFERENCE);
}
API int cublasLtMatmulPreferenceDestroy(Handle handle) {
    return destroyed("cublasLtMatmulPreferenceDestroy", handle, PREFERENCE);
}
API int cublasLtMatmulPreferenceSetAttribute(Handle handle, int attribute, const void *value, size_t bytes) {
    const bool known = attribute == WORKSPACE_BYTES && bytes == sizeof(size_t);
    const char *const name = "cublasLtMatmulPreferenceSetAttribute";
    return set(name, handle, PREFERENCE, known, *static_cast<const int64_t *>(value));
}

API int cublasLtMatmulAlgoGetHeuristic(Handle handle, Handle operation, Handle left, Handle right, Handle addend,
                                       Handle out, Handle preference, int wanted, Found *found, int *count) {
    BlasCall blas("cublasLtMatmulAlgoGetHeuristic");
    const auto product = shape(blas, operation, left, right, out);
    const auto prefers = blas.find(preference, PREFERENCE);
    if (!product || !prefers || addend != out || !blas.find(handle, HANDLE)) {
        return blas.refuse("no such product", NOT_SUPPORTED);
    }
    *count = wanted < 3 ? wanted : 3;
    for (int at = 0; at < *count; at++) {
        found[at] = {{at, product->n, {}}, size_t((*prefers)[0]), at == 0 ? NOT_SUPPORTED : SUCCESS, 1.0f, {}};
    }
    return blas.status();
}

API int cublasLtMatmul(Handle handle, Handle operation, const float *alpha, const void *left, Handle left_layout,
                       const void *right, Handle right_layout, const float *beta, const void *addend,
                       Handle addend_layout, void *out, Handle out_layout, const Algorithm *algorithm, void *workspace,
                       size_t workspace_bytes, Handle stream_handle) {
    BlasCall blas("cublasLtMatmul");
    if (blas.status() != SUCCESS) {
        return blas.status();
    }
    Gpu &gpu = blas.call.gpu;
    const auto product = shape(blas, operation, left_layout, right_layout, out_layout);
    const auto stream = gpu.streams.find(stream_handle);
    if (!product || !stream || !blas.find(handle, HANDLE) || addend != out || addend_layout != out_layout) {
        return blas.refuse("no such product");
    }
    if (*alpha != 1.0f || *beta != 0.0f) {
        return blas.refuse("factors that are not known here");
    }
    product->left = left;
    product->right = right;
    product->out = static_cast<float *>(out);
    const auto there = [&](const void *place, size_t bytes) {
        // What an algorithm is chosen for, where nothing else is said: pointers at multiples of 256.
        return gpu.holds(uint64_t(place), bytes) && uint64_t(place) % 256 == 0;
    };
    const auto [m, n, k] = std::array{size_t(product->m), size_t(product->n), size_t(product->k)};
    const size_t each = bytes_of(product->type);
    if (!there(left, m * k * each) || !there(right, n * k * each) || !there(out, m * n * 4) ||
        !there(workspace, workspace_bytes)) {
        return blas.refuse("an operand is not there, or not aligned");
    }
    if (algorithm->which == 0) {
        return blas.refuse("an algorithm that was named as one that does not work");
    }
    if (algorithm->which == 2 && algorithm->n != product->n) {
        return NOT_SUPPORTED;
    }
    product->backwards = algorithm->which == 2;
    Node node([=] { return compute(*product); });
    // What depends on it may begin when its last block ends, before what it wrote can be seen.
    node.is_kernel = true;
    return gpu.enqueue(*stream, std::move(node)) == OK ? SUCCESS : EXECUTION_FAILED;
}
