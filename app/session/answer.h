#pragma once
// What a run has answered, as text, and why it ends where it ends.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// The tokens after the prompt as UTF-8, up to the mark of its end or the first of the texts `stop`. Bytes that make no
/// character are U+FFFD; a character whose last bytes have not come is left out.
std::string answer_text(const RunRecord& run, const std::vector<std::string>& stop = {});
/// The last token says that the text ends: <|im_end|>, </s> and the like.
bool has_end_mark(const RunRecord& run);
/// "stopped at 64 tokens", "12 of 64 tokens". `before`: tokens of the answer by earlier runs, which this one continues.
std::string stop_reason(const RunRecord& run, int before = 0);

}  // namespace kvscope::app
