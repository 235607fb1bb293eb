// view.fit, view.zoom_*, view.pan_*, view.range, go.*: which part of the run is shown, and where one goes by number.

#include <algorithm>
#include <cctype>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"

namespace kvscope::app {
namespace {

void zoom(Session& session, double factor) {
  const RunRecord& run = run_of(session);
  views::Selection& selection = session.selection();
  const views::TokenSpan span = views::shown_span(selection, run.n_tokens());
  const std::int32_t q = views::cursor(selection, run).q;
  // The keys zoom at the playhead where it is in sight.
  const double at = span.contains(q) ? (q - span.begin + 0.5) / span.size() : 0.5;
  views::show_span(selection, views::zoom_span(span, run.n_tokens(), factor, at), run);
}

void pan(Session& session, double share) {
  const RunRecord& run = run_of(session);
  const views::TokenSpan span = views::shown_span(session.selection(), run.n_tokens());
  views::show_span(session.selection(), views::pan_span(span, run.n_tokens(), share * span.size()), run);
}

views::TokenSpan span_argument(const Session& session, const nlohmann::json& arguments) {
  const int n = run_of(session).n_tokens();
  const int begin = integer_argument(arguments, "begin", 0), end = integer_argument(arguments, "end", n);
  if (begin < 0 || end <= begin || begin >= n)
    bad_argument("begin, end", "0 <= begin < end, begin below " + std::to_string(n));
  return {begin, std::min(end, n)};
}

nlohmann::json set_range(Session& session, const nlohmann::json& arguments) {
  views::show_span(session.selection(), span_argument(session, arguments), run_of(session));
  const views::TokenSpan shown = views::shown_span(session.selection(), run_of(session).n_tokens());
  return {{"begin", shown.begin}, {"end", shown.end}};
}

void go_to(Session& session, UiState& ui, const nlohmann::json& arguments) {
  if (!has_argument(arguments, "q") && !has_argument(arguments, "token") && !has_argument(arguments, "layer") &&
      !has_argument(arguments, "kv_head") && !has_argument(arguments, "place")) {
    ui.open(ui.go_to);
    return;
  }
  const nlohmann::json wanted =
      has_argument(arguments, "place") ? parse_place(text_argument(arguments, "place")) : arguments;
  const RunRecord& run = run_of(session);
  views::Selection& selection = session.selection();
  const auto index = [&](const char* key, int n, int fallback) {
    const int value = integer_argument(wanted, key, fallback);
    if (has_argument(wanted, key) && (value < 0 || value >= n))
      usage_error(key, std::to_string(value), "0 to " + std::to_string(n - 1));
    return value;
  };
  const int layer = index("layer", run.evict_at.n_layers(), selection.layer);
  const int kv_head = index("kv_head", run.evict_at.n_kv_heads(), selection.kv_head);
  const int token = index("token", run.n_tokens(), selection.token), q = index("q", run.n_tokens(), -1);
  selection.layer = layer, selection.kv_head = kv_head, selection.token = token;
  if (has_argument(wanted, "token")) views::reveal_token(selection, token, run);
  if (q >= 0) {
    selection.play.on = false;
    views::scrub_to(selection, q, run);
    views::reveal_token(selection, q, run);
  }
}

}  // namespace

nlohmann::json parse_place(const std::string& text) {
  nlohmann::json place = nlohmann::json::object();
  const auto refuse = [&] {
    usage_error("go to", "\"" + text + "\"", "a query number, or t 812 (token), l 3 (layer), h 1 (head), q 900");
  };
  std::string key = "q";
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (std::isdigit(c)) {
      std::size_t end = i;
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
      if (end - i > 9 || key.empty()) refuse();
      place[key] = std::stoi(text.substr(i, end - i));
      key.clear();
      i = end;
    } else if (std::isalpha(c)) {
      std::size_t end = i;
      while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
      const std::string word = text.substr(i, end - i);
      if (word == "q" || word == "query")
        key = "q";
      else if (word == "t" || word == "token")
        key = "token";
      else if (word == "l" || word == "layer")
        key = "layer";
      else if (word == "h" || word == "head")
        key = "kv_head";
      else
        refuse();
      i = end;
    } else if (c == ' ' || c == ',' || c == ':' || c == '=') {
      ++i;
    } else {
      refuse();
    }
  }
  if (place.empty()) refuse();
  return place;
}

void add_span_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto shown = [&session] { return session.runs().shown_a() != nullptr; };
  const auto add = [&](const char* id, const char* title, const char* group, const char* shortcut, Action action,
                       std::vector<Argument> arguments = {}) {
    registry.add({id, title, group, shortcut, arguments, shown, std::move(action)});
  };
  add("view.fit", "Show the whole run", "Time", "F",
      [&session] { views::show_all(session.selection(), run_of(session)); });
  registry.add({"view.to_brush", "Zoom to the marked range", "Time", "Shift+F", takes(),
                [shown, &session] { return shown() && !session.selection().brush.empty(); },
                [&session] { views::show_span(session.selection(), session.selection().brush, run_of(session)); }});
  add(
      "selection.brush", "Mark a range of tokens", "Select", "",
      [&session](const nlohmann::json& arguments) {
        const views::TokenSpan span = span_argument(session, arguments);
        session.selection().brush = has_argument(arguments, "begin") ? span : views::TokenSpan{};
      },
      takes(arg::number("begin", "", "token"), arg::number("end", "", "token; leave empty to unmark")));
  add("view.zoom_in", "Zoom in", "Time", "= W Shift+= Shift++ +", [&session] { zoom(session, views::kZoomStep); });
  add("view.zoom_out", "Zoom out", "Time", "- S", [&session] { zoom(session, 1 / views::kZoomStep); });
  add("view.pan_left", "Pan back in time", "Time", "A", [&session] { pan(session, -views::kPanStep); });
  add("view.pan_right", "Pan forward in time", "Time", "D", [&session] { pan(session, views::kPanStep); });
  add(
      "view.range", "Show a part of the run", "Time", "",
      [&session](const nlohmann::json& arguments) { return set_range(session, arguments); },
      takes(arg::number("begin", "", "query"), arg::number("end", "", "query; leave empty for the whole run")));
  add(
      "go.to", "Go to a token or query by number", "Time", "Ctrl+G",
      [&session, &ui](const nlohmann::json& arguments) { go_to(session, ui, arguments); },
      takes(arg::number("q"), arg::number("token"), arg::number("layer"), arg::number("kv_head"),
            arg::otherwise(arg::text("place", "asks"))));
}

}  // namespace kvscope::app
