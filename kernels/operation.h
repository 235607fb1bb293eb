#pragma once
// What all operations have in common: three versions, of which a place chooses one.

#include <span>

#include "kernels/cuda_error.h"
#include "kernels/dtype.h"

namespace kvscope::kernels {

/// The versions of an operation. The reference says what it *is*: plain loops in double.
enum class Backend : std::uint8_t { reference, cpu, cuda };

/// Where an operation runs: here and now, or enqueued on a stream of the current CUDA device.
struct Place {
  Backend backend = Backend::cpu;
  Stream stream = nullptr;  // of CUDA

  bool is_cuda() const { return backend == Backend::cuda; }
};

}  // namespace kvscope::kernels

// Macros, since the versions are told apart by their namespaces, and in a build without CUDA one of them does not exist.

/// Declares an operation. op(args, place) refuses arguments by name and value (std::invalid_argument, argument_check.h)
/// and runs one version; a version by itself checks nothing.
#define KVSCOPE_OPERATION(op, Args)         \
  void op(const Args& args, Place place);   \
  namespace reference {                     \
  void op(const Args& args);                \
  }                                         \
  namespace cpu {                           \
  void op(const Args& args);                \
  }                                         \
  namespace cuda {                          \
  void op(const Args& args, Stream stream); \
  }                                         \
  static_assert(true, "an operation ends with ;")

/// The same with op(rows, place) beside it: several rows of a decode step, in as few launches as they allow on CUDA. Rows
/// write to different memory. A row's result does not depend on how many there are, bit for bit.
#define KVSCOPE_OPERATION_OF_ROWS(op, Args)           \
  void op(const Args& args, Place place);             \
  void op(std::span<const Args> rows, Place place);   \
  namespace reference {                               \
  void op(const Args& args);                          \
  }                                                   \
  namespace cpu {                                     \
  void op(const Args& args);                          \
  }                                                   \
  namespace cuda {                                    \
  void op(std::span<const Args> rows, Stream stream); \
  }                                                   \
  static_assert(true, "an operation ends with ;")

/// The bodies of both, where check_args(args) refuses what cannot be. At the end of <op>.cpp.
#define KVSCOPE_RUN_ROWS(op, Args)                                                                  \
  void op(std::span<const Args> rows, Place place) {                                                \
    for (const Args& row : rows) check_args(row);                                                   \
    if (place.is_cuda()) return KVSCOPE_ON_CUDA(op, rows, place.stream);                            \
    for (const Args& row : rows) place.backend == Backend::cpu ? cpu::op(row) : reference::op(row); \
  }                                                                                                 \
  void op(const Args& args, Place place) { op(std::span<const Args>(&args, 1), place); }            \
  static_assert(true, "a definition ends with ;")

/// The last statement of op(args, place) in <op>.cpp, after its checks.
#define KVSCOPE_RUN(op, args, place)                    \
  switch ((place).backend) {                            \
    case Backend::reference:                            \
      return reference::op(args);                       \
    case Backend::cpu:                                  \
      return cpu::op(args);                             \
    case Backend::cuda:                                 \
      return KVSCOPE_ON_CUDA(op, args, (place).stream); \
  }
#ifdef KVSCOPE_HAS_CUDA
#define KVSCOPE_ON_CUDA(op, args, stream) cuda::op(args, stream)
#else
#define KVSCOPE_ON_CUDA(op, args, stream) no_cuda(#op)
#endif
