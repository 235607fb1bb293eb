#pragma once
// What a run has answered, as text, and why it ends where it ends.

#include <string>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

/// The tokens behind the prompt as UTF-8, without the mark of its end; bytes that make no character as U+FFFD, a character
/// whose last bytes have not come left out. It ends before the first of the texts `stop`, which the tokens have.
std::string answer_text(const RunRecord& run, const std::vector<std::string>& stop = {});
/// The last token says that the text ends: <|im_end|>, </s> and the like.
bool has_end_mark(const RunRecord& run);
/// "stopped at 64 tokens", "end of text after 12 tokens", "12 of 64 tokens so far". `before`: tokens of the answer that an
/// earlier run made, which this one goes on from.
std::string stop_reason(const RunRecord& run, int before = 0);

}  // namespace kvscope::app
