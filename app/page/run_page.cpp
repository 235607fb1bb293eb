#include "app/page/run_page.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "app/page/packed_run.h"
#include "app/page/page_facts.h"
#include "app/page/page_sources.h"
#include "engine/core/policy/policy.h"
#include "engine/core/study/measure/oracle.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "engine/core/support/plain_text.h"
#include "engine/core/support/version.h"
#include "views/figure/caption.h"
#include "views/figure/colormap.h"
#include "views/figure/render.h"
#include "views/figure/state_colours.h"
#include "views/figure/token_text.h"
#include "views/frame/theme.h"
#include "views/widgets/strip_legend.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;
using views::Colour;

constexpr TokenState kStates[] = {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted};
constexpr Metric kMapMetrics[] = {Metric::density, Metric::evict_ratio, Metric::cache_share, Metric::recall,
                                  Metric::mean_recall};

std::string hex(Colour colour) {
  char text[8];
  std::snprintf(text, sizeof text, "%02x%02x%02x", colour.r, colour.g, colour.b);
  return text;
}

/// Text between tags or in an attribute.
std::string html(const std::string& text) {
  std::string safe;
  for (const char c : plain_text(text)) {
    if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '&')
      safe += "&amp;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

/// Inside a script element: no text of a run may end it.
std::string script_json(const ordered_json& value) {
  std::string safe;
  for (const char c : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

/// The window's colours as variables of CSS.
std::string colour_variables(bool dark) {
  const views::Theme theme = views::make_theme(dark, 1);
  const views::Palette& p = theme.palette;
  std::string css;
  const auto add = [&](const std::string& name, Colour colour) { css += "--" + name + ":#" + hex(colour) + ";"; };
  add("background", p.background), add("panel", p.panel), add("raised", p.raised), add("border", p.border);
  add("text", p.text), add("muted", p.muted), add("line", p.line), add("accent", p.accent);
  for (const TokenState state : kStates) {
    const std::string name(views::state_name(state));
    const Colour colour = views::state_colour(state, dark), chip = views::soft(theme, colour);
    add(name, colour), add(name + "-chip", chip), add(name + "-ink", views::ink_on(chip));
  }
  const Colour wrong = views::verdict_colour(views::Verdict::missed, dark), chip = views::soft(theme, wrong);
  add("wrong", wrong), add("wrong-chip", chip), add("wrong-ink", views::ink_on(chip));
  return css;
}

std::string colours_css() {
  return ":root{color-scheme:light dark;" + colour_variables(false) + "}\n@media (prefers-color-scheme:dark){:root{" +
         colour_variables(true) + "}}\n";
}

/// 256 entries from 0 to 1, and for each whether black or white reads better on it.
void add_colormap(ordered_json& data) {
  std::string colours, inks;
  for (int i = 0; i < 256; ++i) {
    const Colour colour = views::sample(views::Colormap::viridis, (i + 0.5) / 256);
    colours += hex(colour);
    inks += views::ink_on(colour).r > 128 ? 'w' : 'b';
  }
  data["colours"] = colours;
  data["inks"] = inks;
}

void add_words(ordered_json& data, const RunRecord& run) {
  const bool has_oracle = Oracle(run).is_known();
  data["metrics"] = ordered_json::array();
  for (const Metric metric : kMapMetrics) {
    for (const MetricInfo& info : metric_list()) {
      if (info.metric != metric || (info.needs_oracle && !has_oracle)) continue;
      data["metrics"].push_back(
          {{"name", info.name}, {"title", info.title_with_base()}, {"definition", info.definition}});
    }
  }
  data["states"] = ordered_json::object();
  for (const TokenState state : kStates)
    data["states"][std::string(views::state_name(state))] = views::state_definition(state);
}

void add_geometry(ordered_json& data, const RunRecord& run) {
  const RetentionGeometry geometry = run.geometry();
  ordered_json sinks = ordered_json::array(), windows = ordered_json::array(), local = ordered_json::array();
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head) {
      const RetentionGeometry own = run.geometry(layer, head);
      sinks.push_back(own.n_sink), windows.push_back(own.window);
      local.push_back(run.is_local_by_model(layer, head) ? 1 : 0);
    }
  }
  data["n_sink"] = geometry.n_sink, data["window"] = geometry.window;
  data["head_n_sink"] = sinks, data["head_window"] = windows, data["local_by_model"] = local;
  // Of a run that failed, what has no lifetime counts as kept; of one that ended well it is still in the window.
  data["open"] = run.status == RunStatus::running || run.status == RunStatus::failed;
}

void add_tokens(ordered_json& data, const RunRecord& run) {
  ordered_json texts = ordered_json::array(), line_ends = ordered_json::array();
  for (int t = 0; t < run.n_tokens(); ++t) {
    const std::string_view piece = run.pieces[static_cast<std::size_t>(t)];
    texts.push_back(views::token_text(piece));
    if (views::ends_line(piece)) line_ends.push_back(t);
  }
  data["tokens"] = texts;
  data["line_ends"] = line_ends;
}

ordered_json page_data(const RunRecord& run) {
  ordered_json data = {{"format", "kvscope-page"},
                       {"version", 1},
                       {"n_layers", run.evict_at.n_layers()},
                       {"n_kv_heads", run.evict_at.n_kv_heads()},
                       {"n_tokens", run.n_tokens()},
                       {"n_queries", run.queries()},
                       {"prompt_len", run.prompt_len}};
  add_geometry(data, run);
  add_words(data, run);
  add_colormap(data);
  add_tokens(data, run);
  data["arrays"] = ordered_json::object();
  for (const PackedArray& array : packed_arrays(run)) {
    data["arrays"][array.name] = {
        {"type", array.type}, {"columns", array.columns}, {"deflate", views::base64(deflated(array.bytes))}};
  }
  return data;
}

std::string facts_html(const RunRecord& run) {
  std::string list;
  for (const PageFact& fact : page_facts(run)) {
    const std::string tip = fact.definition.empty() ? "" : " title=\"" + html(fact.definition) + "\"";
    list += "<div><dt" + tip + ">" + html(fact.title) + "</dt><dd data-fact=\"" + html(fact.name) + "\"";
    if (!fact.value.empty()) list += " data-value=\"" + html(fact.value) + "\"";
    list += ">" + html(fact.text) + "</dd></div>\n";
  }
  return list;
}

std::string text_of(const RunRecord& run, int from, int to) {
  std::string text;
  for (int t = from; t < to; ++t) text += run.pieces[static_cast<std::size_t>(t)];
  return text;
}

/// The template with what a run has in place of each {{name}}. What is put in is not searched again.
std::string filled(std::string_view page, const std::map<std::string, std::string, std::less<>>& parts) {
  std::string text;
  while (true) {
    const std::size_t begin = page.find("{{"), end = page.find("}}", begin);
    text += page.substr(0, begin);
    if (end == std::string_view::npos) return text;
    text += parts.at(std::string(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
}

void check_length(const RunRecord& run, const std::string& source) {
  const int n_heads = run.evict_at.n_layers() * run.evict_at.n_kv_heads(), most = most_page_tokens(n_heads);
  if (run.n_tokens() <= most) return;
  throw Error({.code = ExitCode::bad_input,
               .file = source,
               .where = "run",
               .found = std::to_string(run.n_tokens()) + " tokens in " + std::to_string(n_heads) + " KV heads",
               .expected = "at most " + std::to_string(most) + " tokens for a page",
               .hint = "write .nc or .csv instead, or open the trace in the window"});
}

}  // namespace

std::string run_page(const RunRecord& run, const std::string& source) {
  views::resolve_query(run, -1);  // refuses a run without tokens
  check_length(run, source);
  const int prompt_end = std::min(run.prompt_len, run.n_tokens());
  const std::string prompt = run.prompt_text.empty() ? text_of(run, 0, prompt_end) : run.prompt_text;
  const std::string title = run.model.name + ", " + std::string(policy_of(run.policy).info.title);
  return filled(kPageHtml, {{"title", html(title)},
                            {"description", html(views::describe_run(run))},
                            {"colours", colours_css()},
                            {"css", std::string(kPageCss)},
                            {"facts", facts_html(run)},
                            {"prompt", html(prompt)},
                            {"answer", html(text_of(run, prompt_end, run.n_tokens()))},
                            {"program", "KVScope " + std::string(version())},
                            {"data", script_json(page_data(run))},
                            {"script", std::string(kPageScript)}});
}

}  // namespace kvscope::app
