// view.*, palette, help, app: what the window looks like.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "engine/core/study/retention_metrics.h"

namespace kvscope::app {
namespace {

constexpr std::pair<const char*, views::ColourMode> kColourModes[] = {{"state", views::ColourMode::state},
                                                                      {"score", views::ColourMode::score},
                                                                      {"kept_heads", views::ColourMode::kept_heads},
                                                                      {"oracle", views::ColourMode::oracle}};

void set_metric(Session& session, const nlohmann::json& arguments) {
  const auto metrics = metric_list();
  if (has_argument(arguments, "metric")) {
    const MetricInfo* info = find_metric(text_argument(arguments, "metric"));
    if (!info) bad_argument("metric", "a metric's name");
    session.selection().metric = info->metric;
    return;
  }
  const auto now = std::ranges::find(metrics, session.selection().metric, &MetricInfo::metric) - metrics.begin();
  session.selection().metric = metrics[static_cast<std::size_t>(now + 1) % metrics.size()].metric;
}

}  // namespace

void add_view_commands(CommandRegistry& registry, Session& session, UiState& ui) {
  const auto add = [&](std::string id, std::string title, std::string shortcut, auto action) {
    registry.add({.id = std::move(id),
                  .title = std::move(title),
                  .group = "View",
                  .shortcut = std::move(shortcut),
                  .run = [action](const nlohmann::json& arguments) -> nlohmann::json {
                    action(arguments);
                    return nullptr;
                  }});
  };
  int number = 1;
  for (const auto& [name, mode] : kColourModes) {
    std::string title = std::string("Colour tokens by ") + name;
    std::replace(title.begin(), title.end(), '_', ' ');
    add(std::string("view.colour_") + name, title, std::to_string(number++),
        [&session, mode = mode](const nlohmann::json&) { session.selection().colour = mode; });
  }
  registry.add({.id = "view.metric",
                .title = "Next metric of the map",
                .group = "View",
                .shortcut = "M",
                .arguments = "metric: name",
                .run = [&session](const nlohmann::json& arguments) -> nlohmann::json {
                  set_metric(session, arguments);
                  return nullptr;
                }});
  registry.add({.id = "view.maximise",
                .title = "Maximise a view, or back",
                .group = "View",
                .shortcut = "Z",
                .arguments = "view: token_strip|layer_head_map|cache_timeline",
                .run = [&ui](const nlohmann::json& arguments) -> nlohmann::json {
                  const std::string view =
                      has_argument(arguments, "view") ? text_argument(arguments, "view") : "token_strip";
                  ui.maximised = ui.maximised.empty() ? view : "";
                  return nullptr;
                }});
  add("view.left", "Show or hide prompt and policy", "Ctrl+B", [&ui](const nlohmann::json&) { ui.left = !ui.left; });
  add("view.right", "Show or hide the inspector", "Ctrl+Shift+B",
      [&ui](const nlohmann::json&) { ui.right = !ui.right; });
  add("view.bottom", "Show or hide the time deck", "Ctrl+J", [&ui](const nlohmann::json&) { ui.bottom = !ui.bottom; });
  add("view.log", "Show or hide the log", "Ctrl+L", [&ui](const nlohmann::json&) { ui.log = !ui.log; });
  add("view.theme", "Light or dark theme", "", [&ui](const nlohmann::json&) { ui.dark = !ui.dark; });
  add("view.zoom_in", "Larger", "Ctrl+= Ctrl++",
      [&ui](const nlohmann::json&) { ui.zoom = std::min(3.0f, ui.zoom * 1.1f); });
  add("view.zoom_out", "Smaller", "Ctrl+-", [&ui](const nlohmann::json&) { ui.zoom = std::max(0.5f, ui.zoom / 1.1f); });
  add("view.zoom_reset", "Normal size", "Ctrl+0", [&ui](const nlohmann::json&) { ui.zoom = 1; });
  add("palette.open", "All commands", "Ctrl+K Ctrl+Shift+P",
      [&ui](const nlohmann::json&) { ui.palette = !ui.palette; });
  add("help.keys", "Keys", "Shift+/ F1", [&ui](const nlohmann::json&) { ui.help = !ui.help; });
  registry.add({.id = "app.screenshot",
                .title = "Save a picture of the window",
                .group = "File",
                .shortcut = "F12",
                .arguments = "path: file.png",
                .run = [&ui](const nlohmann::json& arguments) -> nlohmann::json {
                  ui.screenshot = has_argument(arguments, "path") ? text_argument(arguments, "path") : "kvscope.png";
                  return nullptr;
                }});
  registry.add({.id = "banner.dismiss",
                .title = "Dismiss a message",
                .group = "View",
                .arguments = "id: number (all)",
                .enabled = [&session] { return !session.messages().banners().empty(); },
                .run = [&session](const nlohmann::json& arguments) -> nlohmann::json {
                  const int id = integer_argument(arguments, "id", -1);
                  const auto banners = session.messages().banners();
                  for (const Banner& banner : banners) {
                    if (id < 0 || banner.id == id) session.messages().dismiss_banner(banner.id);
                  }
                  return nullptr;
                }});
  registry.add({.id = "app.quit",
                .title = "Quit",
                .group = "File",
                .shortcut = "Ctrl+Q",
                .run = [&ui](const nlohmann::json&) -> nlohmann::json {
                  ui.quit = true;
                  return nullptr;
                }});
}

}  // namespace kvscope::app
