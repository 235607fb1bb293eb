// What scripts and tests see of the window, and how they act on it.

#include <imgui.h>

#include <nlohmann/json.hpp>

#include "app/command/layouts.h"
#include "app/window/app_window.h"
#include "app/window/keyboard_focus.h"
#include "app/window/open_views.h"
#include "app/workspace/layout_json.h"

namespace kvscope::app {

nlohmann::json AppWindow::state() const {
  nlohmann::json state = session_.state();
  state["frame"] = frame_;
  state["key"] = {{"command", key_command_}, {"presses", n_key_commands_}};
  state["workspace"] = workspace_.state();
  state["frame_times"] = frame_times_.state();
  std::vector<std::string> row;
  for (const views::View* view : main_row(ui_, views_)) row.push_back(view->id());
  state["ui"] = {{"palette", ui_.palette},
                 {"help", ui_.help},
                 {"notes", ui_.notes},
                 {"layouts", ui_.layouts},
                 {"studies", ui_.studies},
                 {"dialog", ui_.dialog ? nlohmann::json(ui_.dialog->command) : nlohmann::json()},
                 {"maximised", ui_.maximised},
                 {"main_row", row},
                 {"open_views", windows_of(ui_.arrangement)},
                 {"arrangement", arrangement_json(ui_.arrangement)},
                 {"looks", looks_json(ui_.looks)},
                 {"left", ui_.left},
                 {"right", ui_.right},
                 {"bottom", ui_.bottom},
                 {"log", ui_.log},
                 {"dark", ui_.dark},
                 {"colours", views::to_string(ui_.colours)},
                 {"keyboard", ui_.keyboard ? nlohmann::json(keyboard_region(ui_)) : nlohmann::json()},
                 {"keyboard_frame", keyboard_frame(ui_)},
                 {"zoom", ui_.zoom},
                 {"film", film_.is_on() ? nlohmann::json(film_.text()) : nlohmann::json()},
                 {"text_input", ImGui::GetIO().WantTextInput},
                 {"input_waits", has_pending_input()}};
  return state;
}

Requests::Host AppWindow::request_host() {
  Requests::Host host;
  host.execute = [this](const std::string& id, const nlohmann::json& args) {
    last_touch_ = std::chrono::steady_clock::now();
    frames_due_ = kFramesAfterInput;
    nlohmann::json answer = commands_.execute(id, args);
    make_open_views(ui_, views_, services_, session_.selection());  // the next one may name a view that this one opened
    theme_.maps = ui_.colours;  // the next one may export a figure before there is a frame
    return answer;
  };
  host.state = [this] { return state(); };
  host.item = [this](const std::string& id) -> nlohmann::json {
    const auto rect = items_.find(id);
    return rect ? nlohmann::json{rect->x, rect->y, rect->w, rect->h} : nlohmann::json();
  };
  host.text = [this](const std::string& id) -> nlohmann::json {
    const auto text = items_.text(id);
    return text ? nlohmann::json(*text) : nlohmann::json();
  };
  host.items = [this] { return nlohmann::json(items_.ids()); };
  host.commands = [this] {
    nlohmann::json list = nlohmann::json::array();
    for (const Command& command : commands_.all()) {
      list.push_back({{"id", command.id},
                      {"title", command.title},
                      {"shortcut", command.shortcut},
                      {"keys", shortcuts_.all(command)},
                      {"arguments", description(command.arguments)},
                      {"enabled", commands_.enabled(command)},
                      {"why_not", commands_.refusal(command)}});
    }
    return list;
  };
  host.busy = [this] { return !ui_.screenshot.empty() || film_.is_on(); };
  host.give_up = [this] {
    ui_.screenshot.clear();
    if (ui_.film) ui_.film->stop = true;
  };
  return host;
}

}  // namespace kvscope::app
