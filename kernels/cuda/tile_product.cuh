#pragma once
// Products of two tiles of rows in shared memory, a b^T, kTileRows x kTileRows: on tensor cores for bfloat16, on the
// ordinary units for float32 (TF32 would lose 13 bits of it).

#include <cuda_bf16.h>

#include <type_traits>

namespace kvscope::kernels {

constexpr int kTileRows = 64;

/// Row stride in shared memory. The 16 bytes of padding put neighbouring rows into different banks for every head_dim.
template <typename T, int kHeadDim>
constexpr int kTileStride = kHeadDim + 16 / static_cast<int>(sizeof(T));

template <typename T, int kHeadDim>
constexpr int kTileElements = kTileRows* kTileStride<T, kHeadDim>;

// --- float32: 256 threads; thread (tx, ty) = (thread % 16, thread / 16) has rows ty + 16 i of a, rows tx + 16 j of b
// ---

constexpr int kThreadsF32 = 256;

/// s[i][j] = a[ty + 16 i] . b[tx + 16 j]
template <int kHeadDim>
__device__ inline void tile_product(const float* a, const float* b, float (&s)[4][4]) {
  constexpr int kStride = kTileStride<float, kHeadDim>;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] = 0;
  }
#pragma unroll 4
  for (int d = 0; d < kHeadDim; d += 4) {
    float4 x[4], y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = *reinterpret_cast<const float4*>(a + (ty + 16 * i) * kStride + d);
      y[i] = *reinterpret_cast<const float4*>(b + (tx + 16 * i) * kStride + d);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        s[i][j] += x[i].x * y[j].x + x[i].y * y[j].y + x[i].z * y[j].z + x[i].w * y[j].w;
      }
    }
  }
}

// --- bfloat16: 128 threads; warp w has rows 16 w ... 16 w + 15 of a and all 64 rows of b, by mma.m16n8k16 ---
//
// A thread of lane l holds, with g = l / 4 and p = 2 (l % 4), of each 16 x 8 block of the result
//     c[0], c[1]: row g,     columns p, p + 1
//     c[2], c[3]: row g + 8, columns p, p + 1

constexpr int kThreadsBf16 = 128;

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Four 8 x 8 matrices; lane l gives the address of row l % 8 of matrix l / 8 (16-byte aligned) and receives of each
/// matrix the elements (l / 4, p) and (l / 4, p + 1).
__device__ inline void load_matrices(unsigned (&r)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// The same for the transposed matrices: elements (p, l / 4) and (p + 1, l / 4).
__device__ inline void load_matrices_transposed(unsigned (&r)[4], const __nv_bfloat16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Of an 8 x 8 matrix of which lane l has elements (l / 4, p) and (l / 4, p + 1): elements (p, l / 4) and (p + 1, l / 4).
__device__ inline unsigned transposed(unsigned x) {
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(x));
  return x;
}

/// c += a b for a of 16 x 16 and b of 16 x 8, float32 sums.
__device__ inline void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

/// This warp's 16 rows of a tile as operand a of kHeadDim / 16 mma steps; kept in registers.
template <int kHeadDim>
struct RowFragments {
  unsigned step[kHeadDim / 16][4];

  __device__ void load(const __nv_bfloat16* tile) {
    const int lane = threadIdx.x % 32;
    const int row = threadIdx.x / 32 * 16 + lane % 16;  // matrices 0, 2: rows 0 ... 7; matrices 1, 3: rows 8 ... 15
    const int column = lane / 16 * 8;                   // matrices 0, 1: columns 0 ... 7; matrices 2, 3: 8 ... 15
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      load_matrices(step[i], tile + row * kTileStride<__nv_bfloat16, kHeadDim> + 16 * i + column);
    }
  }
};

/// s[n] = block of columns 8 n ... 8 n + 7 of a b^T.
template <int kHeadDim>
__device__ inline void tile_product(const RowFragments<kHeadDim>& a, const __nv_bfloat16* b, float (&s)[8][4]) {
  const int lane = threadIdx.x % 32;
  const int row = lane / 16 * 8 + lane % 8;  // matrices 0, 1: rows 0 ... 7 of b; matrices 2, 3: rows 8 ... 15
  const int column = lane / 8 % 2 * 8;       // matrices 0, 2: columns 0 ... 7; matrices 1, 3: columns 8 ... 15
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      unsigned r[4];
      load_matrices(r, b + (16 * n + row) * kTileStride<__nv_bfloat16, kHeadDim> + 16 * i + column);
      mma(s[2 * n], a.step[i], r[0], r[1]);
      mma(s[2 * n + 1], a.step[i], r[2], r[3]);
    }
  }
}

/// The same for the rows of two tiles a: what is read of b serves both.
template <int kHeadDim>
__device__ inline void tile_products(const RowFragments<kHeadDim> (&a)[2], const __nv_bfloat16* b,
                                     float (&s)[2][8][4]) {
  const int lane = threadIdx.x % 32;
  const int row = lane / 16 * 8 + lane % 8;  // as in tile_product()
  const int column = lane / 8 % 2 * 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[half][n][i] = 0;
    }
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < kHeadDim / 16; ++i) {
      unsigned r[4];
      load_matrices(r, b + (16 * n + row) * kTileStride<__nv_bfloat16, kHeadDim> + 16 * i + column);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        mma(s[half][2 * n], a[half].step[i], r[0], r[1]);
        mma(s[half][2 * n + 1], a[half].step[i], r[2], r[3]);
      }
    }
  }
}

/// o[n] += columns 8 n ... 8 n + 7 of p v, p = this warp's 16 x 64 weights as tile_product leaves them, v a tile of 64
/// rows. Weights are rounded to bfloat16.
template <int kHeadDim>
__device__ inline void add_weighted_rows(const float (&p)[8][4], const __nv_bfloat16* v, float (&o)[kHeadDim / 8][4]) {
  const int lane = threadIdx.x % 32;
  const int row = lane % 16;         // matrices 0, 2: keys 0 ... 7; matrices 1, 3: keys 8 ... 15
  const int column = lane / 16 * 8;  // matrices 0, 1: features 0 ... 7; matrices 2, 3: features 8 ... 15
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned a[4] = {pack(p[2 * i][0], p[2 * i][1]), pack(p[2 * i][2], p[2 * i][3]),
                           pack(p[2 * i + 1][0], p[2 * i + 1][1]), pack(p[2 * i + 1][2], p[2 * i + 1][3])};
#pragma unroll
    for (int n = 0; n < kHeadDim / 16; ++n) {
      unsigned r[4];
      load_matrices_transposed(r, v + (16 * i + row) * kTileStride<__nv_bfloat16, kHeadDim> + 16 * n + column);
      mma(o[2 * n], a, r[0], r[1]);
      mma(o[2 * n + 1], a, r[2], r[3]);
    }
  }
}

}  // namespace kvscope::kernels
