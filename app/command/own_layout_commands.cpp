// layout.save, layout.apply, layout.remove, layout.own: layouts that a person has put together and named.

#include <algorithm>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/layouts.h"
#include "engine/core/support/error.h"
#include "engine/core/support/trim.h"

namespace kvscope::app {
namespace {

std::vector<OwnLayout>::iterator own_layout(UiState& ui, const nlohmann::json& arguments) {
  const std::string name = text_argument(arguments, "name");
  const auto found = std::ranges::find(ui.own_layouts, name, &OwnLayout::name);
  if (found != ui.own_layouts.end()) return found;
  std::string all;
  for (const OwnLayout& layout : ui.own_layouts) all += (all.empty() ? "" : ", ") + in_quotes(layout.name);
  bad_argument("name", all.empty() ? "a custom layout; there are none yet" : "one of " + all);
}

}  // namespace

void add_own_layout_commands(CommandRegistry& registry, UiState& ui) {
  registry.add(
      {"layout.own", "Custom layouts ...", "View", "Shift+F5", takes(), nullptr, [&ui] { ui.layouts = !ui.layouts; }});
  registry.add({"layout.save", "Save this layout", "View", "", takes(arg::text("name", "asks")), nullptr,
                [&ui](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "name")) return void(ui.layouts = true);
                  save_layout(ui, std::string(trim(text_argument(arguments, "name"), " \t\n")));
                }});
  const auto there_are = [&ui] { return !ui.own_layouts.empty(); };
  registry.add({"layout.apply", "Use a custom layout", "View", "", takes(arg::text("name", "opens the list")),
                there_are, [&ui](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "name")) return void(ui.layouts = true);
                  apply(*own_layout(ui, arguments), ui);
                  ui.layouts = false;
                }});
  registry.add({"layout.remove", "Remove a custom layout", "View", "", takes(arg::text("name", "opens the list")),
                there_are, [&ui](const nlohmann::json& arguments) {
                  if (!has_argument(arguments, "name")) return void(ui.layouts = true);
                  ui.own_layouts.erase(own_layout(ui, arguments));
                }});
}

}  // namespace kvscope::app
