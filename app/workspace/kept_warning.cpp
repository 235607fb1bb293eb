#include "app/workspace/kept_warning.h"

#include <algorithm>

namespace kvscope::app {
namespace {

std::string beginning(const std::string& what) { return what + " will not be restored at the next launch: "; }

int find_warning(const Messages& messages, const std::string& beginning) {
  const auto found = std::ranges::find_if(messages.banners(),
                                          [&](const Banner& banner) { return banner.text.starts_with(beginning); });
  return found == messages.banners().end() ? 0 : found->id;
}

}  // namespace

void warn_not_kept(Messages& messages, const std::string& what, const std::string& why) {
  if (find_warning(messages, beginning(what)) == 0)
    messages.add_banner({.kind = Banner::Kind::warning, .text = beginning(what) + why});
}

void take_back(Messages& messages, const std::string& beginning) {
  while (const int id = find_warning(messages, beginning)) messages.dismiss_banner(id);
}

void take_back_not_kept(Messages& messages, const std::string& what) { take_back(messages, beginning(what)); }

}  // namespace kvscope::app
