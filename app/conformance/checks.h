#pragma once
// The results of a suite, and how a check ends.

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvscope::app::conformance {

enum class Outcome { ok, fails, not_served };

struct Check {
  std::string name;  // "oracle: masses"
  Outcome outcome = Outcome::ok;
  std::string text;  // what was checked, or in plain words what is wrong
};

/// The engine did something wrong. what() says what, and what was expected.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The check needs what this engine or this model does not have.
struct NotServed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Nothing more can be checked: the engine ended, does not answer, or has no model.
struct EndOfSuite : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Checks {
 public:
  explicit Checks(std::function<void(const Check&)> on_check) : on_check_(std::move(on_check)) {}
  /// Runs one check. `body` returns what was checked, or throws. Returns whether it is ok. EndOfSuite passes through, after
  /// the check was noted as one that fails.
  bool check(const std::string& name, const std::function<std::string()>& body);
  const std::vector<Check>& all() const { return checks_; }

 private:
  void note(Check check);

  std::function<void(const Check&)> on_check_;
  std::vector<Check> checks_;
};

/// Throws Failure unless `holds`.
void require(bool holds, const std::string& otherwise);

}  // namespace kvscope::app::conformance
