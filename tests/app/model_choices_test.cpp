// What was chosen for each model, in a session and at the next start.

#include <catch2/catch.hpp>
#include <fstream>

#include "app/workspace/workspace.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

namespace fs = std::filesystem;

/// A session and its workspace on a folder, as one start of the window has them.
struct Start {
  explicit Start(const fs::path& folder)
      : session({.engine_command = "exec " + test::fake_engine().string(), .trace_program = {}, .wake = [] {}}),
        workspace(session, layout, appearance, {.state = folder, .settings = folder / "settings.json", .wake = [] {}}) {
    wait([&] { return workspace.is_read(); });
    workspace.begin();
  }
  template <typename Condition>
  void wait(Condition condition) {
    test::poll_until(session, [&] {
      workspace.poll();
      return condition();
    });
  }
  void open(const fs::path& model) {
    session.model().open(model.string());
    workspace.undo().observe();  // as after a command
    wait([&] { return test::has_model(session) && !words_pending(model); });
  }
  bool words_pending(const fs::path& model) const {
    return session.next_run().has_chat() != fs::exists(model / "chat_template.jinja");
  }
  std::string log() {
    std::string all;
    for (const std::string& line : session.messages().log_lines()) all += line + "\n";
    return all;
  }
  /// Policy, chat and gates in a line.
  std::string chosen() const {
    const Parameters& now = session.parameters();
    std::string text = now.policy.written() + (now.raw ? ", text" : ", chat");
    for (const std::string& gate : session.engine().gates_to_load()) text += ", " + fs::path(gate).filename().string();
    return text;
  }
  Layout layout;
  Appearance appearance;
  Session session;
  Workspace workspace;
};

constexpr const char* kChatml =
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}";

fs::path write_model(const fs::path& folder, bool chat) {
  test::link_sample_model(folder, {"config.json", "tokenizer.json", "tokenizer_config.json"});
  if (chat) std::ofstream(folder / "chat_template.jinja") << kChatml;
  return folder;
}

}  // namespace

TEST_CASE("A model that is opened again has the policy, the gate and the chat that were chosen for it, and says so") {
  const test::TemporaryFolder folder;
  const fs::path chatty = write_model(folder / "chatty", true), plain = write_model(folder / "other-plain", false);
  const fs::path gate = test::source_folder() / "samples/gates/kvscope-tiny/wg-kv-0.01";
  const std::string of_chatty = "wg-kv:threshold=0.3, chat, wg-kv-0.01", of_plain = "h2o:keep=0.3,window=16, text";
  {
    Start start(folder / "state");
    start.open(chatty);
    start.session.next_run().set_raw(false);
    start.session.model().add_gate(gate.string());
    start.wait([&] { return start.session.policy().gate() && test::has_model(start.session); });
    start.session.policy().set(PolicySpec::parse("wg-kv:threshold=0.3"));
    REQUIRE(start.chosen() == of_chatty);
    start.open(plain);
    CHECK_THAT(start.log(), Catch::Contains("other-plain has no chat template. Chat is off"));
    start.session.policy().set(PolicySpec::parse("h2o:keep=30%,window=16"));
    start.workspace.undo().observe();
    CHECK(start.chosen() == of_plain);
    start.open(chatty);
    CHECK(start.chosen() == of_chatty);
    CHECK_THAT(start.log(), Catch::Contains("chatty: Chat is on, the policy is WG-KV, as last used with this model"));
    start.workspace.undo().undo();
    CHECK(start.chosen().starts_with(of_plain));
    start.workspace.undo().redo();
    CHECK(start.chosen() == of_chatty);
    start.workspace.save();
    start.wait([&] { return start.workspace.saved(); });
  }
  Start next(folder / "state");
  next.open(plain);
  CHECK(next.chosen() == of_plain);
  next.open(chatty);
  CHECK(next.chosen() == of_chatty);
}

TEST_CASE("What a model did not allow is not carried on to the next one that nothing was chosen for") {
  const test::TemporaryFolder folder;
  Start start(folder / "state");
  start.open(write_model(folder / "chatty", true));
  start.session.next_run().set_raw(false);
  start.open(write_model(folder / "other-plain", false));
  CHECK(start.session.parameters().raw);
  start.open(write_model(folder / "new", true));
  CHECK_FALSE(start.session.parameters().raw);
  CHECK_THAT(start.log(), Catch::Contains("new: Chat is on, as before"));
}

TEST_CASE("A model whose chat template is refused runs plain text, and Chat shows why") {
  const test::TemporaryFolder folder;
  const fs::path model = write_model(folder / "odd", false);
  std::ofstream(model / "chat_template.jinja") << "{% include 'x' %}";
  Start start(folder / "state");
  start.session.next_run().set_raw(false);
  start.session.model().open(model.string());
  start.wait([&] { return test::has_model(start.session) && !start.session.next_run().chat_refusal().empty(); });
  CHECK_THAT(start.session.next_run().chat_refusal(),
             Catch::StartsWith("chat_template.jinja: an unsupported template: it uses {%include'x'%}; expected "));
  CHECK_FALSE(start.session.next_run().has_chat());
  CHECK(start.session.parameters().raw);
  CHECK_THAT(start.log(),
             Catch::Contains("odd: Chat is off, and the model continues the raw text. chat_template.jinja: "));
  start.session.next_run().set_prompt("hello");
  start.wait([&] { return start.session.next_run().prompt_tokens() > 0; });
}
