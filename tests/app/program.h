#pragma once
// The program without a window: a session, what the window has beside it, and every command.

#include <catch2/catch.hpp>
#include <string>

#include "app/command/app_commands.h"
#include "tests/app/poll_until.h"
#include "views/view_list.h"

namespace kvscope::test {

struct Program {
  /// By default one without an engine, whose place is a shell that ends at once.
  explicit Program(const std::string& engine = "exit 0")
      : session(app::Session::Options{.engine_command = engine, .trace_program = "", .wake = [] {}}) {
    app::add_all_commands(commands, session, ui, views);
  }
  nlohmann::json run(const char* id, const nlohmann::json& arguments = nlohmann::json::object()) {
    return commands.execute(id, arguments);
  }
  /// Until what reads and writes files has ended, and its end has been taken in: nothing went wrong.
  void settle() {
    poll_until(session, [this] { return !session.files().busy(); });
    session.poll();
    REQUIRE(session.messages().banners().empty());
  }

  app::Session session;
  app::UiState ui;
  app::CommandRegistry commands;
  views::NullTextureBackend textures;
  views::ItemRegistry items;
  views::Theme theme;
  views::ViewList views = views::make_views({&textures, &items, &theme});
};

}  // namespace kvscope::test
