#pragma once
// The tokens of A under a hybrid whose global heads are those of a head directory.

#include <string>

namespace kvscope::app {

class Session;

class MeasuredHeads {
 public:
  explicit MeasuredHeads(Session& session) : session_(session) {}

  /// The heads are loaded as a gate, and hybrid:heads=d becomes the policy; the run becomes B. Throws Error (usage) with why_not().
  void measure(const std::string& folder);
  std::string why_not() const;  // a sentence; empty: it is possible
  /// Begins once the engine has read the heads.
  void poll();

 private:
  Session& session_;
  bool reading_ = false;  // the directory
  int a_ = 0;             // id of A, to be replayed; 0: none
};

}  // namespace kvscope::app
