#include "engine/server/failure.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "kernels/cuda_error.h"

namespace kvscope::engine {
namespace {

constexpr char kMemoryHint[] =
    "a shorter text, a smaller budget or --dtype bfloat16 needs less; other programs may hold memory";
constexpr char kFaultHint[] = "restart the engine: a CUDA fault ends with the process that had it";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// LibTorch reports CUDA errors as its own; their text says so.
bool is_cuda_fault(const std::string& text) {
  return text.find("CUDA error") != std::string::npos || text.find("CUBLAS_STATUS") != std::string::npos;
}

}  // namespace

Error current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::OutOfMemoryError& error) {
    return Error(
        {.code = ExitCode::resource, .found = first_line(error.what_without_backtrace()), .hint = kMemoryHint});
  } catch (const std::bad_alloc&) {
    return Error({.code = ExitCode::resource, .found = "out of memory", .hint = kMemoryHint});
  } catch (const kernels::CudaError& error) {
    return Error({.code = ExitCode::resource, .found = first_line(error.what()), .hint = kFaultHint});
  } catch (const c10::Error& error) {
    const std::string text = first_line(error.what_without_backtrace());
    if (is_cuda_fault(text)) return Error({.code = ExitCode::resource, .found = text, .hint = kFaultHint});
    // The CPU allocator of LibTorch has no type of its own for a failure.
    if (text.find("DefaultCPUAllocator") != std::string::npos) {
      return Error({.code = ExitCode::resource, .found = text, .hint = kMemoryHint});
    }
    return Error({.code = ExitCode::internal, .found = text});
  } catch (const std::exception& error) {
    return Error({.code = ExitCode::internal, .found = first_line(error.what())});
  } catch (...) {
    return Error({.code = ExitCode::internal, .found = "an exception of an unknown type"});
  }
}

}  // namespace kvscope::engine
