#pragma once
// The Python of --engine hf and of recordings as arrays.

#include <string>
#include <vector>

namespace kvscope::app {

/// $KVSCOPE_PYTHON or python3.
std::string python_program();

/// `python -m MODULE ARGUMENTS`: $KVSCOPE_PYTHON or python3, with the package `kvscope` that came with this program, else
/// the one that is installed there.
std::vector<std::string> python_argv(const std::string& module, const std::vector<std::string>& arguments = {});

}  // namespace kvscope::app
