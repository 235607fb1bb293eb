#pragma once
// Model folders as they must not be, each with what its error line says; and odd ones that are good.

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace kvscope::test {

/// What is done to a good folder. A valid weights file of another model stands beside it, as ../outside.safetensors.
struct BrokenModel {
  const char* name;
  std::function<void(const std::filesystem::path& folder)> damage;
  const char* file;    // named in the line
  const char* reason;  // in the line
  bool sharded = false;
  bool found_by_inspect = true;  // which compares no tensor with the configuration
};

std::vector<BrokenModel> broken_weights();
std::vector<BrokenModel> broken_indexes();
std::vector<BrokenModel> broken_configurations();
std::vector<BrokenModel> broken_tokenizers();

/// Changes that must not keep a model from loading.
struct OddModel {
  const char* name;
  std::function<void(const std::filesystem::path& folder)> change;
  bool sharded = false;
};
std::vector<OddModel> odd_models();

}  // namespace kvscope::test
