#pragma once
// The runs that kvscope --bench-ui looks at: made up by arithmetic, the same every time.

#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// A run in progress of that many tokens, a quarter of which each head keeps; with scores if asked for.
RunRecord made_up_run(int n_layers, int n_kv_heads, int n_tokens, bool with_scores);

/// A trace of about that size in the temporary folder, of up to 64 runs of at most `n_tokens` tokens (longer where 64 are
/// too few). Returns its path; the caller removes it.
std::string write_bench_trace(int megabytes, int n_layers, int n_kv_heads, int n_tokens);

}  // namespace kvscope::app
