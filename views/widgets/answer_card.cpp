#include "views/widgets/answer_card.h"

#include <charconv>
#include <cmath>
#include <string>

#include "views/figure/token_text.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {
namespace {

constexpr const char* kChoicesHint =
    "The probability that each run gave the token it chose and the token that the other run chose. Only the first is "
    "recorded. The second is at most the rest; a dashed bar shows this limit.";
constexpr const char* kLostHint =
    "Tokens that this run had evicted at the query where the answers diverge, and that the other run could still see, in at "
    "least one KV head. A row has the number of these heads and the future mass: the mean attention that the token receives "
    "from each later query under a full cache, summed over these heads. The mass ranks them; without an oracle, the number "
    "of heads does. Click one to select its token, its head and that query.";

/// The number at the end of "token.17" or "lost.a.3"; -1 if there is none.
int panel_number(std::string_view panel) {
  const std::string_view digits = panel.substr(panel.rfind('.') + 1);
  int number = -1;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return read.ptr == digits.data() + digits.size() ? number : -1;
}

bool is_lost(std::string_view panel) { return panel.starts_with("lost."); }
std::size_t loser_of(std::string_view panel) { return panel.starts_with("lost.a") ? 0 : 1; }

std::string quoted_piece(const RunRecord& run, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return "\"" + (i < run.pieces.size() ? token_label(run.pieces[i], 24) : "") + "\"";
}

/// What a run has at that position of its text.
std::string chosen_line(const RunRecord& run, std::int32_t position) {
  if (position < 0) return "does not have it";
  const auto t = static_cast<std::size_t>(position);
  const bool known = t < run.logprobs.size() && !std::isnan(run.logprobs[t]);
  return "token " + std::to_string(position) + " " + quoted_piece(run, position) + ", probability " +
         (known ? format_number(std::exp(static_cast<double>(run.logprobs[t]))) : "not recorded");
}

void draw_token_card(const ViewServices& services, const PartingNumbers& numbers, const JointToken& joint) {
  const HoverCard card(services);
  const Palette& p = services.theme->palette;
  for (const bool of_a : {true, false}) {
    const std::int32_t position = of_a ? joint.a : joint.b;
    const std::string line =
        answer_name(numbers.options, of_a ? 0 : 1) + ": " + chosen_line(of_a ? numbers.a : numbers.b, position);
    text_in(position < 0 ? p.muted : p.text, line);
    services.items->add_text(of_a ? "difference.card.0" : "difference.card.1", last_item(), line);
  }
}

void draw_lost_card(const ViewServices& services, const PartingNumbers& numbers, std::size_t run,
                    const LostToken& token) {
  const LostBetween& lost = (*numbers.lost)[run];
  const HoverCard card(services);
  const Colour muted = services.theme->palette.muted;
  ImGui::TextUnformatted(("Token " + std::to_string(token.t) + " " + quoted_piece(numbers.a, token.t)).c_str());
  const std::string heads = "At query " + std::to_string(numbers.answers.parting->q) + " lost by " +
                            answer_name(numbers.options, run) + " and kept by " +
                            answer_name(numbers.options, 1 - run) + " in " + std::to_string(token.n_heads) + " of " +
                            std::to_string(lost.n_heads) + " heads";
  text_in(muted, heads);
  services.items->add_text("difference.card", last_item(), heads);
  const std::string head = "L" + std::to_string(token.layer) + " H" + std::to_string(token.kv_head);
  if (lost.mass_of == MassOf::none) return text_in(muted, "Future mass: not recorded. First such head: " + head);
  const std::string whose = answer_name(numbers.options, lost.mass_of == MassOf::loser ? run : 1 - run);
  text_in(muted, "Future mass in these heads, as recorded in " + whose + ": " + format_number(token.mass));
  text_in(muted, "Most of it in " + head);
}

}  // namespace

int joint_token(const PartingNumbers& numbers, std::string_view panel) {
  const int token = panel.starts_with("token.") ? panel_number(panel) : -1;
  return token < static_cast<int>(numbers.answers.text.size()) ? token : -1;
}

const LostToken* lost_token(const PartingNumbers& numbers, std::string_view panel) {
  const int row = panel_number(panel);
  if (!is_lost(panel) || row < 0 || numbers.lost == nullptr) return nullptr;
  const std::vector<LostToken>& tokens = (*numbers.lost)[loser_of(panel)].tokens;
  return row < static_cast<int>(tokens.size()) ? &tokens[static_cast<std::size_t>(row)] : nullptr;
}

void draw_answer_card(const ViewServices& services, const PartingNumbers& numbers, std::string_view panel) {
  if (const int token = joint_token(numbers, panel); token >= 0)
    return draw_token_card(services, numbers, numbers.answers.text[static_cast<std::size_t>(token)]);
  if (const LostToken* lost = lost_token(numbers, panel))
    return draw_lost_card(services, numbers, loser_of(panel), *lost);
  const char* hint = is_lost(panel) ? kLostHint : panel == "choices" ? kChoicesHint : nullptr;
  if (hint == nullptr) return;
  const HoverCard card(services);
  ImGui::PushTextWrapPos(services.theme->px(340));
  ImGui::TextUnformatted(hint);
  ImGui::PopTextWrapPos();
  services.items->add_text("difference.card", last_item(), hint);
}

}  // namespace kvscope::views
