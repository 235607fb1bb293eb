#pragma once
// Other programs that do what a benchmark measures, each with a script that measures it.

#include <span>
#include <string>

namespace kvscope::app {

struct Peer {
  const char* module;   // of Python
  const char* command;  // in a checkout
};
std::span<const Peer> bench_peers();

/// Whether the Python of KVSCOPE_PYTHON, or python3, finds the module. It is not imported.
bool is_importable(const std::string& module);

}  // namespace kvscope::app
