#include "kernels/cuda/check.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/mlstm_step.h"
#include "kernels/validate.h"

namespace kvscope::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kMaxWidth = 256;

// One block per head. A thread owns column j of C and every n_groups-th row of it, so neighbouring threads touch
// neighbouring floats; the read's partial sums of the groups meet in shared memory in a fixed order.
__global__ void mlstm_step_kernel(MlstmStepArgs args) {
  __shared__ float shared_k[kMaxWidth];  // i' k~
  __shared__ float shared_q[kMaxWidth];
  __shared__ float partial[kThreads];
  __shared__ float sums[kThreads / 32];
  const int head = blockIdx.x;
  const int thread = threadIdx.x;
  const int n = args.d_key;
  const int width = args.d_value;

  const float carried = args.log_f[head] + args.m[head];
  const float m = fmaxf(carried, args.log_i[head]);
  // Nothing was ever let in (all gates -inf): the state is still zero, and -inf - -inf must not make it NaN.
  const bool empty = m == -INFINITY;
  const float keep = empty ? 1.0f : expf(carried - m);
  const float admit = empty ? 0.0f : expf(args.log_i[head] - m);

  float product = 0;  // this thread's term of q~^T z
  if (thread < n) {
    const long long at = static_cast<long long>(head) * n + thread;
    const float k = admit * args.k[at];
    const float q = args.q ? args.q[at] : 0.0f;
    const float z = keep * args.z[at] + k;
    args.z[at] = z;
    shared_k[thread] = k;
    shared_q[thread] = q;
    product = q * z;
  }
  const float norm = block_sum<kThreads>(product, sums);  // synchronises: shared_k, shared_q and m are read by now
  if (thread == 0) args.m[head] = m;

  const int n_groups = kThreads / width;
  const int group = thread / width;
  const int column = thread % width;
  float sum = 0;
  if (group < n_groups) {
    float* c = args.c + static_cast<long long>(head) * n * width + column;
    const float v = args.v[static_cast<long long>(head) * width + column];
#pragma unroll 4
    for (int row = group; row < n; row += n_groups) {
      const float updated = keep * c[row * width] + shared_k[row] * v;
      c[row * width] = updated;
      sum += shared_q[row] * updated;
    }
  }
  if (!args.q) return;  // the same for all threads
  partial[thread] = sum;
  __syncthreads();
  if (thread >= width) return;
  float h = 0;
  for (int i = 0; i < n_groups; ++i) h += partial[i * width + thread];
  const float denominator = args.guarded ? fmaxf(fmaxf(fabsf(norm), expf(-m)), 1e-30f) : fmaxf(norm, 1e-6f);
  args.h[static_cast<long long>(head) * width + thread] = h / denominator;
}

}  // namespace

void mlstm_step(const MlstmStepArgs& args, Stream stream) {
  validate(args);
  mlstm_step_kernel<<<args.n_heads, kThreads, 0, stream>>>(args);
  check_launch();
}

}  // namespace kvscope::kernels
