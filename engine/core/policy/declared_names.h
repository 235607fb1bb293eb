#pragma once
#include <string>
#include <vector>

namespace kvscope {

/// The names that mean a policy of an engine (declared_policy.h), from a to z.
std::vector<std::string> declared_names();

}  // namespace kvscope
