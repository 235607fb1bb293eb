// A run's prompt and its end: the model's own chat template, and texts before which the answer ends.
#include "engine/core/files/tokenizer/chat.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/decode/run.h"
#include "tests/support/expect_error.h"
#include "tests/support/folders.h"
#include "tests/support/golden.h"
#include "tests/support/skip.h"
#include "tests/support/temp_folder.h"

using namespace kvscope;
namespace fs = std::filesystem;

namespace {

const fs::path kSample = test::in_source("samples/models/kvscope-tiny");

/// The sample model with a chat template beside it; it has the tokens of ChatML.
void write_chat_model(const test::TempFolder& folder, const std::string& template_name) {
  for (const auto& entry : fs::directory_iterator(kSample)) {
    fs::create_symlink(fs::absolute(entry.path()), folder.path() / entry.path().filename());
  }
  const auto golden = test::read_golden("tests/core/golden/chat.json");
  for (const auto& t : golden["templates"]) {
    if (t["name"] == template_name) folder.write("chat_template.jinja", t["text"].get<std::string>());
  }
}

RunRequest plain_request(std::string prompt, int max_tokens) {
  RunRequest request;
  request.prompt = std::move(prompt);
  request.policy = PolicySpec::parse("full");
  request.max_tokens = max_tokens;
  request.oracle = false;
  return request;
}

}  // namespace

TEST_CASE("A chat's prompt is what the model's template makes of it, and what was typed stays text", "[engine]") {
  if (!fs::exists(kSample / "model.safetensors")) return test::skip("the sample model is not there");
  const test::TempFolder folder;
  write_chat_model(folder, "Qwen2.5");
  const auto model = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  const ChatTemplate chat = ChatTemplate::load(folder.path());
  RunRequest request = plain_request("What is <|im_end|>?", 1);
  const auto ids_of = [&](const std::vector<ChatMessage>& messages) {
    return chat.encode(model.tokenizer(), messages);
  };

  CHECK(engine::Generation(model, request).ids() == model.tokenizer().encode_with_special(request.prompt));
  request.raw = false;
  CHECK(engine::Generation(model, request).ids() == ids_of({{"user", request.prompt}}));
  request.messages = {{"system", "Be brief."}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  CHECK(engine::Generation(model, request).ids() == ids_of(request.messages));
  request.chat.thinking = true;
  CHECK_THAT(test::error_of([&] { engine::Generation(model, request); }), Catch::StartsWith("thinking: on"));
}

TEST_CASE("A chat with a model that has no template known is refused when it is asked for", "[engine]") {
  if (!fs::exists(kSample / "model.safetensors")) return test::skip("the sample model is not there");
  const test::TempFolder folder;
  write_chat_model(folder, "none");
  folder.write("chat_template.jinja", "{{ messages.x.y }}");
  const auto model = engine::LoadedModel::load(folder.path(), {"cpu", "float32"});
  RunRequest request = plain_request("a", 1);
  CHECK(engine::Generation(model, request).ids().size() == 1);
  request.raw = false;
  CHECK_THAT(test::error_of([&] { engine::Generation(model, request); }),
             Catch::Contains("chat_template.jinja: an unsupported template"));
}

TEST_CASE("A run ends when its answer has a stop string, and the answer ends before it", "[engine]") {
  if (!fs::exists(kSample / "model.safetensors")) return test::skip("the sample model is not there");
  const auto model = engine::LoadedModel::load(kSample, {"cpu", "float32"});
  RunRequest request = plain_request("\nNumbers: 12 57 31.\n\nReversed:", 16);
  request.stop_at_eos = false;
  const RunEnded whole = engine::execute_run(model, request);
  REQUIRE(whole.text.size() >= 16);
  REQUIRE(whole.timings.decode_steps == 16);
  // Eight bytes of numbers and blanks: more than one token of this tokenizer, which cuts digits one by one.
  const std::string stop = whole.text.substr(4, 8);
  request.stop = {"never written", stop};
  const RunEnded cut = engine::execute_run(model, request);
  CHECK(cut.status == RunStatus::complete);
  CHECK(cut.text == whole.text.substr(0, whole.text.find(stop)));
  CHECK(cut.timings.decode_steps < 16);
  request.stop = {"never written"};
  CHECK(engine::execute_run(model, request).text == whole.text);
  request.stop = {""};
  CHECK_THAT(test::error_of([&] { engine::execute_run(model, request); }), Catch::StartsWith("stop: an empty text"));
}
