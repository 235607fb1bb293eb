#pragma once
// Which prompt which engine of a capture decodes next, and which come again after an engine's end.

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

namespace kvscope::app {

/// Prompts by their place in a list. Each is given out once, and once more if its engine stopped: then alone, so that a prompt that
/// stops engines is found, and those beside it are not blamed. Not safe from several threads.
class PromptQueue {
 public:
  using Place = std::size_t;
  PromptQueue(std::size_t n_prompts, std::size_t n_engines);

  /// Nothing if there is no prompt for this engine now. `end`: no prompt from there on is given out yet.
  std::optional<Place> next(std::size_t engine, Place end);
  /// The engine works on it no more.
  void done(std::size_t engine, Place place) { at_work_[engine].erase(place); }
  /// The engine has stopped. Returns those of its prompts that come again; the others were given out twice.
  std::set<Place> stopped(std::size_t engine);
  const std::set<Place>& at_work(std::size_t engine) const { return at_work_[engine]; }
  /// From now on no prompt is given out.
  void close() { is_closed_ = true; }
  /// No engine works on a prompt, and none comes.
  bool is_over() const;

 private:
  std::size_t n_prompts_, begun_ = 0;
  std::vector<std::set<Place>> at_work_;  // by engine
  std::set<Place> again_, twice_;         // that wait for their second time; that had it, or have it now
  bool is_closed_ = false;
};

}  // namespace kvscope::app
