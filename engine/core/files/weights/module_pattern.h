#pragma once
// Python's regular expressions over the names of a model's modules, as far as they mean the same in std::regex.

#include <regex>
#include <string>

namespace kvscope {

class ModulePattern {
 public:
  enum class Match {
    whole,  // re.fullmatch(pattern, name)
    end     // re.match("(.*\.)?(pattern)$", name)
  };

  /// Throws Error (bad input) at `file`, `key` for what the two languages may read differently: back references, named
  /// groups, flags, look behind, possessive repetitions, unknown escapes, sets inside sets; and for what is too large.
  ModulePattern(const std::string& pattern, Match match, const std::string& file, const std::string& key);
  bool matches(const std::string& module) const { return std::regex_match(module, regex_); }
  /// What one match costs, about.
  std::size_t states() const { return states_; }

 private:
  std::regex regex_;
  std::size_t states_ = 0;
};

}  // namespace kvscope
