#pragma once
// The numbers of a whole run that a page has as text, each with its definition.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

struct PageFact {
  std::string name;        // "recall", for whoever reads the page by program
  std::string title;       // "Oracle recall"
  std::string text;        // "0.8002 (own oracle, k = 87)"
  std::string value;       // as many digits as it has: "0.800190075168942"; empty of one that is no number
  std::string definition;  // may be empty
};

/// Of what the run recorded; numbers that it does not have are left out.
std::vector<PageFact> page_facts(const RunRecord& run);

}  // namespace kvscope::app
