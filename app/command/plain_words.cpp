#include "app/command/plain_words.h"

#include <string_view>

#include "engine/core/study/heads/head_selection.h"

namespace kvscope::app {

std::string plain_words(const Error& error) {
  constexpr std::string_view kNotNow = "not possible now: ";
  const std::string& found = error.parts().found;
  if (const auto* tie = dynamic_cast<const NoRanking*>(&error)) return tie->sentence();
  const std::string text = found.starts_with(kNotNow) ? found.substr(kNotNow.size()) : found;
  return error.code() == ExitCode::usage && text.ends_with('.') ? text : error.what();
}

}  // namespace kvscope::app
