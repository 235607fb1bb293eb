#include "engine/server/failure.h"

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "engine/core/support/std_failure.h"
#include "kernels/cuda_error.h"

namespace kvscope::engine {
namespace {

constexpr char kMemoryHint[] =
    "a shorter text, a smaller budget or --dtype bfloat16 needs less; other programs may hold memory";
constexpr char kFaultHint[] = "the engine stops, because only a new process recovers from a CUDA fault; start it again";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// LibTorch reports CUDA errors as its own; their text says so.
bool is_cuda_fault(const std::string& text) {
  return text.find("CUDA error") != std::string::npos || text.find("CUBLAS_STATUS") != std::string::npos;
}

/// An allocation that did not go through LibTorch's cache, which has a type of its own for that: the context is whole.
bool is_memory(const std::string& text) {
  return text.find("out of memory") != std::string::npos || text.find("MemoryAllocation") != std::string::npos ||
         text.find("CUBLAS_STATUS_ALLOC_FAILED") != std::string::npos ||
         text.find("DefaultCPUAllocator") != std::string::npos;  // no type of its own either
}

/// "CUDA error: unspecified launch failure (cudaErrorLaunchFailure)": the name stands in LibTorch's second line.
std::string with_cuda_name(const std::string& text) {
  const std::string line = first_line(text);
  const std::size_t name = text.find("cudaError", line.size());
  if (name == std::string::npos) return line;
  const std::size_t end =
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", name);
  return line + " (" + text.substr(name, end - name) + ")";
}

Error no_memory(const std::string& found) {
  return Error({.code = ExitCode::resource, .found = found, .hint = kMemoryHint});
}

/// Without the library's words: "not enough memory: 2.00 GiB were asked for".
Error no_memory_of(const std::string& text) {
  for (const std::string_view before : {"you tried to allocate ", "Tried to allocate "}) {
    const std::size_t at = text.find(before);
    if (at == std::string::npos) continue;
    const std::string rest = text.substr(at + before.size());
    const std::size_t unit = rest.find(' ');
    if (unit == std::string::npos) break;
    const std::size_t end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", unit + 1);
    return no_memory("not enough memory: " + rest.substr(0, end) + " were requested");
  }
  return no_memory("not enough memory");
}

Failure cuda_failure(const std::string& text) {
  if (is_memory(text)) return {no_memory_of(text)};
  return {Error({.code = ExitCode::resource, .found = with_cuda_name(text), .hint = kFaultHint}), true};
}

Error internal(const std::string& found) { return Error({.code = ExitCode::internal, .found = found}); }

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return {no_memory_of(error.what_without_backtrace())};
  } catch (const kernels::CudaError& error) {
    return cuda_failure(error.what());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (is_cuda_fault(text)) return cuda_failure(text);
    return {is_memory(text) ? no_memory_of(text) : internal(first_line(text))};
  } catch (const std::exception& error) {
    return {error_of(error)};
  } catch (...) {
    return {internal("an exception of an unknown type")};
  }
}

}  // namespace kvscope::engine
