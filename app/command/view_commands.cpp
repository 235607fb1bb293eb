// view.*, palette, help, app: what the window looks like.

#include <algorithm>
#include <iterator>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/layouts.h"
#include "app/workspace/look_scope.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "views/figure/layer_head_map_figure.h"

namespace kvscope::app {
namespace {

constexpr std::pair<const char*, views::ColourMode> kColourModes[] = {{"state", views::ColourMode::state},
                                                                      {"score", views::ColourMode::score},
                                                                      {"kept_heads", views::ColourMode::kept_heads},
                                                                      {"oracle", views::ColourMode::oracle}};

void set_metric(Session& session, const nlohmann::json& arguments) {
  if (has_argument(arguments, "metric")) {
    const MetricInfo* info = find_metric(text_argument(arguments, "metric"));
    if (!info) bad_argument("metric", "a metric's name");
    return views::choose_metric(session.selection(), info->metric);
  }
  const auto metrics = views::map_metrics();
  const auto now = std::ranges::find(metrics, session.selection().metric);  // of another one the next is the first
  views::choose_metric(session.selection(),
                       now == metrics.end() || std::next(now) == metrics.end() ? metrics.front() : *std::next(now));
}

void maximise(UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  if (!ui.maximised.empty()) {
    ui.maximised.clear();
    return;
  }
  const auto meant = meant_views(ui, views);
  const std::string wanted = has_argument(arguments, "view") ? text_argument(arguments, "view")
                             : meant.empty()                 ? ""
                                                             : meant.front()->id();
  std::string all;
  for (const auto& view : views) {
    if (view->place() == views::Place::side) continue;
    if (wanted == view->id()) {
      ui.maximised = view->id();
      return;
    }
    all += (all.empty() ? "" : ", ") + view->id();
  }
  bad_argument("view", "one of " + all);
}

void dismiss_banners(Session& session, const nlohmann::json& arguments) {
  const int id = integer_argument(arguments, "id", -1);
  const auto banners = session.messages().banners();
  for (const Banner& banner : banners) {
    if (id < 0 || banner.id == id) session.messages().dismiss_banner(banner.id);
  }
}

// A command whose answer is that it was done.
Command command(std::string id, std::string title, const char* group, std::string shortcut, Action action,
                std::vector<Argument> arguments = {}) {
  return {.id = std::move(id),
          .title = std::move(title),
          .group = group,
          .shortcut = std::move(shortcut),
          .arguments = std::move(arguments),
          .run = std::move(action)};
}

// What the views show.
void add_content_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  int number = 1;
  for (const auto& [name, mode] : kColourModes) {
    std::string title = std::string("Colour tokens by ") + name;
    std::replace(title.begin(), title.end(), '_', ' ');
    registry.add(command(std::string("view.colour_") + name, title, "View", std::to_string(number++),
                         [&session, mode = mode] { session.selection().colour = mode; }));
  }
  registry.add(command("view.layers", "Show tokens as text or by layer", "View", "T",
                       [&session] { session.selection().layers = !session.selection().layers; }));
  registry.add(command(
      "view.metric", "Next metric of the map", "View", "M",
      [&session, &ui](const nlohmann::json& arguments) {
        const bool of_view = has_argument(arguments, "view");
        const LookScope scope(session.selection(), ui, of_view ? text_argument(arguments, "view") : "");
        set_metric(session, arguments);
      },
      takes(arg::text("metric", "", "name"), arg::text("view", "the one under the mouse or the keyboard", "name"))));
  // By name as well: who looks for "recall" finds it in palette and menu.
  for (const Metric metric : views::map_metrics()) {
    const MetricInfo& info = views::metric_info(metric);
    registry.add(command("metric." + std::string(info.name), "Metric: " + std::string(info.title), "Metric", "",
                         [&session, metric] { views::choose_metric(session.selection(), metric); }));
  }
  registry.add(command(
      "view.maximise", "Maximise or restore a view", "View", "Z",
      [&ui, &views](const nlohmann::json& arguments) { maximise(ui, views, arguments); },
      takes(arg::text("view", "the one under the mouse or the keyboard, else the first of the row", "name"))));
}

// The view of the argument, or the one that is meant without it.
std::string view_or_meant(const UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  if (has_argument(arguments, "view")) return view_argument(views, arguments, "view");
  const auto meant = meant_views(ui, views);
  if (meant.empty()) bad_argument("view", "the name of a view; none is open");
  return meant.front()->id();
}

// A head that stays in a view while the selection goes elsewhere.
void hold_head(Session& session, UiState& ui, const std::string& view) {
  views::Selection& selection = session.selection();
  InstanceLook& look = ui.looks.at(view);
  const bool exchanged = ui.look_of == view;  // the view itself asks
  if (exchanged) swap_look(selection, ui);
  if (!look.own_head) look.layer = selection.layer, look.kv_head = selection.kv_head;
  look.own_head = !look.own_head;
  if (exchanged) swap_look(selection, ui);
}

// Which views are open.
void add_open_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  for (const LayoutPreset& layout : layout_presets())
    registry.add(command("layout." + std::string(layout.name), std::string(layout.title), "View",
                         std::string(layout.shortcut), [&session, &ui, &layout] {
                           apply(layout, ui,
                                 session.studies().open_studies().shown(session.selection().study) != nullptr);
                         }));
  registry.add(command(
      "view.show", "Show a view", "View", "",
      [&ui, &views](const nlohmann::json& arguments) {
        const std::string view = view_argument(views, arguments, "view");
        const bool instead = has_argument(arguments, "instead_of");
        show_view(ui, views, view, instead ? view_argument(views, arguments, "instead_of") : "");
      },
      takes(arg::text("view", "", "name"), arg::text("instead_of", "added to the others", "name"))));
  registry.add(command(
      "view.another", "Open another view of the same kind", "View", "Shift+V",
      [&session, &ui, &views](const nlohmann::json& arguments) {
        open_another(ui, session.selection(), view_or_meant(ui, views, arguments));
      },
      takes(arg::text("view", "the one under the mouse or the keyboard", "name"))));
  registry.add(command(
      "view.close", "Close a view", "View", "Ctrl+W",
      [&ui, &views](const nlohmann::json& arguments) { close_view(ui, view_or_meant(ui, views, arguments)); },
      takes(arg::text("view", "the one under the mouse or the keyboard", "name"))));
  registry.add(command(
      "view.float", "Float a view", "View", "",
      [&ui, &views](const nlohmann::json& arguments) {
        open_floating(ui.arrangement, view_or_meant(ui, views, arguments), 0.3f, 0.2f, 0.4f, 0.5f);
      },
      takes(arg::text("view", "the one under the mouse or the keyboard", "name"))));
  Command hold = command(
      "view.hold_head", "Hold the head of a view, or follow the selection", "View", "",
      [&session, &ui, &views](const nlohmann::json& arguments) {
        const std::string view = view_or_meant(ui, views, arguments);
        if (!ui.looks.contains(view)) bad_argument("view", "a view that is open beside another of its kind");
        hold_head(session, ui, view);
      },
      takes(arg::text("view", "the one under the mouse or the keyboard", "name")));
  hold.enabled = [&ui] { return !ui.looks.empty(); };
  registry.add(std::move(hold));
  for (const auto& view : views) {
    if (view->place() == views::Place::side) continue;
    registry.add(command("view.toggle_" + view->id(), "Show or hide: " + std::string(view->title()), "View", "",
                         [&ui, &views, id = view->id()] {
                           has_window(ui.arrangement, id) ? close_view(ui, id) : show_view(ui, views, id);
                         }));
  }
}

// Viridis or cividis, by name; without one the other of the two.
void choose_colours(UiState& ui, const nlohmann::json& arguments) {
  constexpr views::Colormap kChoices[] = {views::Colormap::viridis, views::Colormap::cividis};
  if (!has_argument(arguments, "name")) {
    ui.colours = ui.colours == kChoices[0] ? kChoices[1] : kChoices[0];
    return;
  }
  const std::string name = text_argument(arguments, "name");
  const auto found = std::ranges::find(kChoices, name, [](views::Colormap map) { return views::to_string(map); });
  if (found == std::end(kChoices)) bad_argument("name", "viridis or cividis");
  ui.colours = *found;
}

// What of the window is there, and how large.
void add_layout_commands(CommandRegistry& registry, UiState& ui) {
  const auto add = [&](const char* id, const char* title, const char* shortcut, Action action) {
    registry.add(command(id, title, "View", shortcut, std::move(action)));
  };
  add("view.left", "Show or hide prompt and policy", "Ctrl+B", [&ui] { ui.left = !ui.left; });
  add("view.right", "Show or hide the inspector", "Ctrl+Shift+B", [&ui] { ui.right = !ui.right; });
  add("view.bottom", "Show or hide the time deck", "Ctrl+J", [&ui] { ui.bottom = !ui.bottom; });
  add("view.log", "Show or hide the log", "Ctrl+L", [&ui] { ui.log = !ui.log; });
  add("policy.all_parameters", "Show or hide advanced settings", "", [&ui] { ui.all_parameters = !ui.all_parameters; });
  add("view.theme", "Switch between light and dark theme", "", [&ui] { ui.dark = !ui.dark; });
  registry.add(command(
      "view.colours", "Map colours: viridis or cividis", "View", "",
      [&ui](const nlohmann::json& arguments) { choose_colours(ui, arguments); },
      takes(arg::text("name", "the other one", "name"))));
  add("view.larger", "Larger interface",
      "Ctrl+= Ctrl++ Ctrl+Shift+=", [&ui] { ui.zoom = std::min(3.0f, ui.zoom * 1.1f); });
  add("view.smaller", "Smaller interface", "Ctrl+-", [&ui] { ui.zoom = std::max(0.5f, ui.zoom / 1.1f); });
  add("view.normal_size", "Normal interface size", "Ctrl+0", [&ui] { ui.zoom = 1; });
  add("focus.next", "Keyboard: next part of the window", "Tab F6", [&ui] { ui.keyboard = true, ui.focus_step = 1; });
  add("focus.previous", "Keyboard: previous part of the window", "Shift+Tab Shift+F6",
      [&ui] { ui.keyboard = true, ui.focus_step = -1; });
  add("focus.leave", "Keyboard: return to the views", "", [&ui] { ui.keyboard = false; });
  add("view.frame_times", "Show or hide frame times", "F3", [&ui] { ui.frame_times = !ui.frame_times; });
  add("palette.open", "All commands", "Ctrl+K Ctrl+Shift+P", [&ui] { ui.palette = !ui.palette; });
  add("help.keys", "Keys", "Shift+/ F1", [&ui] { ui.help = !ui.help; });
}

}  // namespace

void add_view_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  add_content_commands(registry, session, ui, views);
  add_open_commands(registry, session, ui, views);
  add_layout_commands(registry, ui);
  registry.add(command(
      "app.screenshot", "Save a picture of the window", "File", "F12",
      [&ui](const nlohmann::json& arguments) {
        ui.screenshot = has_argument(arguments, "path") ? text_argument(arguments, "path") : "kvscope.png";
      },
      takes(arg::path("path", "", "file.png"))));
  Command dismiss = command(
      "banner.dismiss", "Dismiss a message", "View", "",
      [&session](const nlohmann::json& arguments) { dismiss_banners(session, arguments); },
      takes(arg::number("id", "all")));
  dismiss.enabled = [&session] { return !session.messages().banners().empty(); };
  registry.add(std::move(dismiss));
  registry.add(command("app.quit", "Quit", "File", "Ctrl+Q", [&ui] { ui.quit = true; }));
}

}  // namespace kvscope::app
