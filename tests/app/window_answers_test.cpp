// Answers that come, and runs that a preview hides, as they stand in the window.

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/app/window_driver.h"
#include "tests/support/skip.h"

using namespace kvscope;
using test::fake;
using test::WindowDriver;

namespace {

/// The sample model with a chat template of a known form.
void write_chat_model(const std::filesystem::path& folder) {
  test::link_sample_model(folder, {"config.json", "tokenizer.json", "model.safetensors"});
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"chat_template": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %})"
      << R"({{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }})"
      << R"({% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %})"
      << R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"})";
}

}  // namespace

TEST_CASE("A chat's answer is copied while it comes, from a button that no answer scrolls away") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  write_chat_model(folder.path());
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 20"), .words = {folder.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", false}});
  window.frames(3);
  CHECK(window.text("chat.copy_answer").empty());  // there is no answer
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 1500}});  // more than it hears of
  window.command("run.start");
  window.wait({{"/a/n_tokens", {{"at_least", 120}}}});
  window.frames(3);
  REQUIRE(window.state()["running"] == true);
  const auto button = window.rect("chat.copy_answer"), system = window.rect("chat.system");
  CHECK(button[1] + button[3] <= system[1]);
  window.click("chat.copy_answer");
  CHECK(window.state()["notice"] == "copied the answer of run 1");
  window.command("run.cancel");
  window.wait({{"/running", false}});
}

// StreamingLLM was said to keep all 162 tokens of a prompt that nobody had read.
TEST_CASE("A run that is stopped before its prompt was read leaves A in sight and says so in the list") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  write_chat_model(folder.path());
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake("--hold"), .words = {folder.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", false}});
  window.command("policy.set", {{"policy", "streaming:sinks=1,window=4"}});
  window.command("prompt.set", {{"text", "Why is it so?"}});
  window.command("run.start");
  window.wait({{"/running", true}, {"/a/id", 1}});
  window.command("run.cancel");
  window.wait({{"/running", false}, {"/a", nullptr}, {"/parameters/prompt", "Why is it so?"}});
  CHECK(window.text_soon("runs.failed", "early") == "1 run stopped early");
  window.frames(3);  // what stands over it has its height again
  window.click("runs.failed");
  CHECK(window.text_soon("run.1.message", "stopped") == "1   stopped before its prompt was read");
}

TEST_CASE("Ctrl+Z behind Ctrl+Enter gives the question back, and Ctrl+Shift+Z brings it with its answer") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  write_chat_model(folder.path());
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {folder.path().string()}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", false}});
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 6}});
  window.command("prompt.set", {{"text", ""}});
  window.frames(3);
  window.click("prompt.text");
  window.type("Why is it");
  window.wait({{"/parameters/prompt", "Why is it"}});
  window.key("ctrl+Return");
  window.wait({{"/running", false}, {"/a/status", "complete"}, {"/parameters/prompt", ""}});
  window.key("ctrl+z");
  window.wait({{"/parameters/prompt", "Why is it"}, {"/a", nullptr}});
  window.key("ctrl+shift+z");
  window.wait({{"/parameters/prompt", ""}, {"/a/id", 1}});
}

// Ctrl+Enter pressed what was framed too, and emptied the chat; Enter on Edit was a line of the draft; the list was entered at a
// button far above what one saw, or at one that was gone.
TEST_CASE("By keys alone the chat keeps its turns behind Ctrl+Enter, and the draft is the turn that Edit takes back") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  write_chat_model(folder.path());
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake(), .words = {folder.path().string(), "--size", "1280x720"}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", false}});
  window.command("policy.set", {{"policy", "full"}});
  window.command("run.max_tokens", {{"n", 6}});
  const auto n_turns = [&] { return window.state()["parameters"]["chat"]["turns"].size(); };
  std::string lines = "1";
  for (int i = 2; i < 30; ++i) lines += "\n" + std::to_string(i);
  for (const char* more : {"", " and more"}) {
    window.command("prompt.set", {{"text", lines + more}});
    window.command("run.start");
    window.wait({{"/running", false}, {"/a/status", "complete"}});
  }
  window.wait({{"/parameters/prompt", ""}});
  REQUIRE(n_turns() == 4);
  const auto frame = [&] { return window.state()["ui"]["keyboard_frame"].get<std::vector<double>>(); };
  const auto is_framed = [&](const std::string& item) {
    const auto at = frame(), of = window.rect(item);
    return std::abs(at[0] - of[0]) < 4 && std::abs(at[1] - of[1]) < 4;
  };
  const auto go_to = [&](const auto& reached, const char* by = "Down") {
    for (int i = 0; i < 30 && !reached(); ++i) window.key(by), window.frames(3);
    REQUIRE(reached());
  };
  window.key("Escape");
  window.key("Tab");
  window.wait({{"/ui/keyboard", "left"}});
  window.frames(3);
  go_to([&] { return frame()[1] == window.rect("button.chat.new")[1]; });
  for (int i = 0; i < 3 && !is_framed("button.chat.new"); ++i) window.key("Right"), window.frames(3);
  REQUIRE(is_framed("button.chat.new"));
  window.key("ctrl+Return");
  window.wait({{"/a/id", 3}, {"/running", false}, {"/a/status", "complete"}});
  CHECK(n_turns() == 4);

  const auto system = window.rect("chat.system");
  go_to([&] { return frame()[1] <= system[1] + 4; }, "Up");
  window.key("Down");  // the list of turns
  window.frames(3);
  window.key("Return");
  window.frames(6);
  REQUIRE(is_framed("chat.edit.0"));
  CHECK(window.rect("chat.edit.0")[1] >= system[1] + system[3]);
  go_to([&] { return is_framed("chat.edit.2"); });
  window.key("Return");
  window.wait({{"/parameters/prompt", lines + " and more"}});
  window.frames(3);
  CHECK(window.state()["parameters"]["prompt"] == lines + " and more");
  CHECK(n_turns() == 2);
}

TEST_CASE("While a preview stands in B's place the run that is B says so, and a click shows it again") {
  if (test::skip_without_display()) return;
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake()});
  window.wait({{"/model", {{"not", nullptr}}}});
  window.command("policy.set", {{"policy", "kvpop:keep=60%"}});
  window.command("run.start");
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  window.command("policy.set", {{"policy", "kvpop:keep=50%"}});
  window.command("run.decode_again");
  window.wait({{"/running", false}, {"/b/status", "complete"}});
  CHECK_THAT(window.text_soon("run.2.b", "clear"), Catch::StartsWith("This is B."));
  window.command("policy.set", {{"policy", "kvpop:keep=70%"}});
  window.wait({{"/preview/shown", true}});
  CHECK_THAT(window.text_soon("run.2.b", "preview"), Catch::Contains("hidden by the preview of A"));
  window.click("run.2.b");
  window.wait({{"/preview/shown", false}});
  CHECK(window.state()["b"]["id"] == 2);
  CHECK_THAT(window.text_soon("run.2.b", "clear"), Catch::StartsWith("This is B."));
}

// It moved by up to 190 pixels: turns appeared above it, and fewer of them beside another run's answer.
TEST_CASE("The policy's list is in sight of a window of 720 and stays where it is while a chat is answered") {
  if (test::skip_without_display()) return;
  const test::TemporaryFolder folder;
  write_chat_model(folder.path());
  const std::string size = GENERATE("1280x720", "1280x1000");
  const test::Xvfb display;
  WindowDriver window(display, {.engine = fake("--slow 10"), .words = {folder.path().string(), "--size", size}});
  window.wait({{"/model", {{"not", nullptr}}}, {"/parameters/raw", false}});
  window.command("policy.set", {{"policy", "kvpop:keep=60%,sinks=4,window=4"}});
  window.command("run.max_tokens", {{"n", 60}});
  window.frames(5);
  const auto before = window.rect("policy.combo");
  if (size == "1280x720") CHECK(before[1] + before[3] < 54 + 0.66 * (720 - 54 - 28));  // the runs take a third at most
  const auto stays = [&] {
    for (int i = 0; i < 12; ++i) {
      window.frames(1);
      const auto now = window.rect("policy.combo");
      if (now[1] != before[1] || now[3] != before[3]) return false;  // its width gives way to a scroll bar
    }
    return true;
  };
  window.command("run.start");
  window.wait({{"/a/n_tokens", {{"at_least", 1}}}});
  CHECK(stays());
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  CHECK(stays());
  window.command("policy.set", {{"policy", "kvpop:keep=50%,sinks=4,window=4"}});
  window.command("run.decode_again");
  window.wait({{"/running", false}, {"/b/status", "complete"}});
  CHECK(stays());
  window.command("prompt.set", {{"text", "And then?"}});
  window.command("run.start");
  CHECK(stays());
  window.wait({{"/running", false}, {"/a/status", "complete"}});
  CHECK(stays());
}
