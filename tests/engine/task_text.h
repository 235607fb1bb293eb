#pragma once
// Questions of the sample model, and searches in their texts.

#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "engine/core/support/json_file.h"
#include "engine/jobs/tasks/task.h"
#include "tests/support/folders.h"

namespace kvscope::test {

inline const std::filesystem::path kSampleModel = in_source("samples/models/kvscope-tiny");

inline bool has_sample_tokenizer() { return std::filesystem::exists(kSampleModel / "tokenizer.json"); }

/// The sample model's tokens of the held-out text.
struct SampleMaterial {
  Tokenizer tokenizer = Tokenizer::load(kSampleModel);
  engine::TaskMaterial material = engine::TaskMaterial::make(
      tokenizer, read_file(in_source("samples/prompts/heldout.txt"), 1 << 24).substr(0, 60000), nullptr, 1);
};

using Found = std::vector<std::string>;

/// The first group of every match.
inline Found all_of(const std::string& text, const std::string& pattern) {
  Found found;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

/// There is one match, and this is its first group.
inline std::string one_of(const std::string& text, const std::string& pattern) {
  const Found found = all_of(text, pattern);
  CAPTURE(pattern);
  REQUIRE(found.size() == 1);
  return found[0];
}

inline std::string last_line(const std::string& text) { return text.substr(text.rfind('\n') + 1); }

}  // namespace kvscope::test
