#pragma once
// The gates that go with the open model: found and read in the background, and which of them the engine reads.

#include <functional>
#include <string>
#include <vector>

#include "app/catalog/gates.h"
#include "app/session/revision.h"
#include "app/session/worker.h"

namespace kvscope::app {

class ModelGates {
 public:
  /// `background` reads them; on_found is called on poll()'s thread when they are there.
  ModelGates(Revision& revision, Worker& background, std::function<void()> on_found)
      : revision_(revision), background_(background), on_found_(std::move(on_found)) {}

  /// Those of this folder from now on, and before them the files of `given`. A folder on another machine has none.
  void look(const std::string& model_path, const std::vector<std::string>& given);
  /// One more of the present folder, before the others; takes the place of one of the same path.
  void add(const GateFacts& gate);
  /// Whether the present folder has been looked into.
  bool known() const { return known_; }
  /// In the order in which a policy looks for its own: those given, beside the model, then those that came with the program.
  const std::vector<GateFacts>& found() const { return found_; }
  /// nullptr if there is none of that name.
  const GateFacts* find(const std::string& name) const;

  /// By which of the found gates a policy decides in an engine that was given these paths; nullptr if by none.
  const GateFacts* used_by(const PolicySpec& policy, const std::vector<std::string>& given) const;
  /// The first that fits the model, leaves its weights as they are and that a policy reads; nullptr if there is none.
  const GateFacts* first_for(const PolicySpec& policy) const;
  /// `given`, with this gate first and no other found gate of its kind; the others go too where one of them changes the weights.
  std::vector<std::string> with(const GateFacts& gate, std::vector<std::string> given) const;

 private:
  Revision& revision_;
  Worker& background_;
  std::function<void()> on_found_;
  std::string model_path_;
  std::vector<GateFacts> found_;
  bool known_ = false;
};

}  // namespace kvscope::app
