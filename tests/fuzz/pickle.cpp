// The pickle of a gate's checkpoint, data.pkl.

#include <cstdlib>

#include "engine/core/files/gate/pickle_reader.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

void read_pickle(std::string_view bytes) {
  const Pickle pickle = parse_pickle(bytes, "a.pt");
  if (pickle.root >= pickle.values.size()) std::abort();
  for (const PickleValue& value : pickle.values) {
    for (const auto item : value.items) {
      if (item >= pickle.values.size()) std::abort();
    }
  }
}

const Registration registration("pickle", read_pickle);

}  // namespace
}  // namespace kvscope::fuzz
