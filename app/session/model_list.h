#pragma once
// The models of this machine, looked for in the background: a cache on a slow disk must not stop a frame.

#include <vector>

#include "app/catalog/models.h"
#include "app/session/revision.h"
#include "app/session/worker.h"

namespace kvscope::app {

class ModelList {
 public:
  ModelList(Revision& revision, Worker& background) : revision_(revision), background_(background) {}

  /// Looks again, unless that is under way.
  void look();
  bool looking() const { return looking_; }
  /// As they were found last.
  const std::vector<KnownModel>& all() const { return all_; }

 private:
  Revision& revision_;
  Worker& background_;
  std::vector<KnownModel> all_;
  bool looking_ = false;
};

}  // namespace kvscope::app
