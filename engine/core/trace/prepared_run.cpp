#include "engine/core/trace/prepared_run.h"

#include <utility>

#include "engine/core/trace/run_derived.h"

namespace kvscope {

PreparedRun::PreparedRun(RunRecord run, const trace::RunPlace& place)
    : model_(run.model), place_(place), block_(trace::encode_run(run, trace::derive(run), place.filled, place.number)) {
  run = {};  // before its copy is made
  // What could not be read back is not written.
  trace::decode_run(block_, model_, "run");
}

}  // namespace kvscope
