#include "app/session/answer.h"

#include <algorithm>
#include <string_view>

#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/support/utf8.h"

namespace kvscope::app {
namespace {

int n_new(const RunRecord& run) { return std::max(0, run.n_tokens() - run.prompt_len); }

bool is_end_mark(std::string_view piece) {
  if (piece == "</s>" || piece == "<eos>" || piece == "<end_of_turn>") return true;
  const auto between = [&](std::string_view open, std::string_view close) {
    return piece.size() > open.size() + close.size() && piece.starts_with(open) && piece.ends_with(close);
  };
  return between("<|", "|>") || between("<｜", "｜>");
}

std::string count(int n) { return std::to_string(n) + (n == 1 ? " token" : " tokens"); }

/// Bytes at the end that begin a character and are not all of it.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 0;
    if (length > 0) return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

bool has_end_mark(const RunRecord& run) {
  return n_new(run) > 0 && is_end_mark(run.pieces[static_cast<std::size_t>(run.n_tokens()) - 1]);
}

std::string answer_text(const RunRecord& run, const std::vector<std::string>& stop) {
  if (n_new(run) == 0 || run.pieces.size() < static_cast<std::size_t>(run.n_tokens())) return "";
  const auto& offsets = run.pieces.offsets();
  const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(run.prompt_len)]);
  const int last = run.n_tokens() - (has_end_mark(run) ? 1 : 0);
  const auto end = static_cast<std::size_t>(offsets[static_cast<std::size_t>(last)]);
  std::string_view bytes = std::string_view(run.pieces.bytes()).substr(begin, end - begin);
  StopStrings stops(stop);
  for (int t = run.prompt_len; t < last && !stop.empty(); ++t) stops.push(run.pieces[static_cast<std::size_t>(t)]);
  if (stops.found()) bytes = bytes.substr(0, stops.answer_bytes());
  bytes.remove_suffix(
      unfinished(bytes));  // of an answer that ends there too: half a character would be asked as another
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, at);
    append_utf8(text, c.valid ? c.code_point : 0xfffd);
    at += c.length;
  }
  return text;
}

std::string stop_reason(const RunRecord& run, int before) {
  const int n = before + n_new(run), asked = before + run.n_positions - run.prompt_len;
  switch (run.status) {
    case RunStatus::running:
      if (run.n_tokens() == 0) return "starting ...";  // the engine has not answered yet
      return std::to_string(n) + " of " + count(asked);
    case RunStatus::cancelled:
      return (run.message.empty() ? "stopped after " : "cut off after ") + count(n);
    case RunStatus::failed:
      return "failed after " + count(n);
    case RunStatus::complete:
      break;
  }
  if (has_end_mark(run)) return "end of text after " + count(n);
  if (n >= asked) return asked == 0 ? "no answer requested" : "stopped at " + count(n);
  return "stop text found after " + count(n);
}

}  // namespace kvscope::app
