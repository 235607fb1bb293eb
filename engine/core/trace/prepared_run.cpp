#include "engine/core/trace/prepared_run.h"

#include <utility>

namespace kvscope {

PreparedRun::PreparedRun(RunRecord run) : run_(std::move(run)), derived_(trace::derive(run_)) {
  // What could not be read back is not written.
  trace::decode_run(trace::encode_run(run_, derived_, trace::Extents{}, 0), run_.model, "run");
}

}  // namespace kvscope
